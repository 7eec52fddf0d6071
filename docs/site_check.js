// What is wrong with a page as it is shown now. Called with whether it is wide, so that nothing needs a scroll bar.
wide => {
  const found = [], view = document.documentElement.clientWidth, root = document.querySelector(".md-content");
  const told = node => `${node.localName} "${node.textContent.trim().replace(/\s+/g, " ").slice(0, 60)}"`;
  const shown = node => node.getClientRects().length > 0;

  if (document.documentElement.scrollWidth > view)
    found.push(`overflow: the page is ${document.documentElement.scrollWidth} px wide in ${view} px`);

  // boxes that scroll by themselves: beside them nothing may reach over the edge, and on a wide page nothing need scroll
  const scrolls = node => ["auto", "scroll"].includes(getComputedStyle(node).overflowX);
  const boxes = [...root.querySelectorAll("*")].filter(node => shown(node) && scrolls(node));
  const inBox = node => boxes.some(box => box !== node && box.contains(node));
  for (const node of root.querySelectorAll("p, li, h1, h2, h3, h4, img, svg, table, pre, math, dt, dd, summary")) {
    if (shown(node) && !inBox(node) && node.getBoundingClientRect().right > view + 1)
      found.push(`overflow: ${told(node)} reaches ${Math.round(node.getBoundingClientRect().right)} px`);
  }
  if (wide) {
    for (const box of boxes)
      if (box.scrollWidth > box.clientWidth + 1)
        found.push(`cut off: ${told(box)} is ${box.scrollWidth} px wide in a box of ${box.clientWidth} px`);
  }
  for (const code of root.querySelectorAll("td code, th code"))
    if (shown(code) && !/\s/.test(code.textContent) && code.getClientRects().length > 1)
      found.push(`broken: ${told(code)} stands on ${code.getClientRects().length} lines`);

  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode;
    if (!node.parentElement.closest("code, pre, script, style") && /\$[^$\s][^$]*\$|\\[([]/.test(node.data))
      found.push(`raw formula: "${node.data.trim().slice(0, 80)}"`);
  }
  for (const image of root.querySelectorAll("img"))
    if (image.complete && !image.naturalWidth) found.push(`no picture: ${image.src}`);
  return found;
}
