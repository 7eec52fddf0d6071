// Browsers start no worker for a page that was opened from disk. There the search runs in a hidden frame instead.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      this.frame = Object.assign(document.createElement("iframe"), {hidden: true, srcdoc: "<!doctype html><body>"});
      this.frame.addEventListener("load", () => this.start(url), {once: true});
      document.body.append(this.frame);
    }
    start(url) {
      const inside = this.frame.contentWindow, script = inside.document.createElement("script");
      inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", {data}));
      this.send = data => inside.dispatchEvent(new inside.MessageEvent("message", {data}));
      script.addEventListener("load", () => {
        this.waiting.forEach(this.send);
        this.waiting = null;
      });
      script.src = url;
      inside.document.body.append(script);
    }
    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.send(data);
    }
    terminate() {
      this.frame.remove();
    }
  };
}
