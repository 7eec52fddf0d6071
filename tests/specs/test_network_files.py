"""The file of a network belongs to a run: its path is found from the spec, its content is part of the store's key."""

from gossamer.specs.spec import Spec

FILE = {"name": "file", "file": "three.edges"}


def parts(folder):
    spec = Spec.of(
        {
            "problem": {"name": "quadratic", "A": [[1.0]], "b": [[1.0], [2.0], [3.0]]},
            "network": FILE,
            "run": {"steps": 3},
            "algorithm": [{"name": "d-psgd", "eta": 0.1}],
            "variant": [{"name": "alone"}, {"name": "in turn", "network": {"name": "sequence", "of": [FILE]}}],
        },
        folder,
    )
    assert spec.toml().count(str(folder / "three.edges")) == 2
    return spec.each(Spec.parts).values()


def test_another_content_is_another_network_and_another_run(tmp_path):
    file, keys = tmp_path / "three.edges", []
    for text, links in (("0 1\n1 2\n", 2), ("0 1\n1 2\n2 0\n", 3)):
        file.write_text(text)
        keys.append([part.key["network"] for part in parts(tmp_path)])
        assert {part.network.links for part in parts(tmp_path)} == {links}
    assert all(before != after for before, after in zip(*keys, strict=True))
