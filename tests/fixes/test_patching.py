"""What the tests of patches rest on: patches applied as an API server applies them, and losses seen."""

from typing import Any

from tests.fixes.patching import edited, merged, taken_away

POD: dict[str, Any] = {
    "spec": {
        "containers": [{"name": "a", "args": ["x"], "env": [{"name": "K", "value": "1"}]}, {"name": "b"}],
        "tolerations": [{"key": "t"}],
        "nodeSelector": {"pool": "x", "zone": "y"},
    }
}


def test_a_strategic_patch_merges_containers_by_name() -> None:
    patch = {"spec": {"containers": [{"name": "a", "env": [{"name": "L", "value": "2"}]}]}}
    after = merged(POD, patch, is_strategic=True)
    assert [c["name"] for c in after["spec"]["containers"]] == ["a", "b"]
    assert [e["name"] for e in after["spec"]["containers"][0]["env"]] == ["K", "L"]
    assert list(taken_away(POD, after, patch)) == []


def test_a_merge_patch_replaces_lists_and_that_is_seen() -> None:
    patch = {"spec": {"containers": [{"name": "a"}]}}
    after = merged(POD, patch, is_strategic=False)
    assert after["spec"]["containers"] == [{"name": "a"}]
    assert "spec.containers.[b]" in list(taken_away(POD, after, patch))


def test_tolerations_are_replaced_even_strategically_and_that_is_seen() -> None:
    patch = {"spec": {"tolerations": [{"key": "u"}]}}
    assert list(taken_away(POD, merged(POD, patch, is_strategic=True), patch)) != []


def test_a_null_takes_away_what_it_says() -> None:
    patch = {"spec": {"nodeSelector": {"pool": None}}}
    after = merged(POD, patch, is_strategic=True)
    assert after["spec"]["nodeSelector"] == {"zone": "y"}
    assert list(taken_away(POD, after, patch)) == []


def test_a_json_patch_adds_at_the_end_and_removes_by_path() -> None:
    after = edited(
        POD,
        [
            {"op": "add", "path": "/spec/tolerations/-", "value": {"key": "u"}},
            {"op": "remove", "path": "/spec/nodeSelector/pool"},
            {"op": "replace", "path": "/spec/containers/1/name", "value": "c"},
        ],
    )
    assert after["spec"]["tolerations"] == [{"key": "t"}, {"key": "u"}]
    assert list(taken_away(POD, after, None)) == ["spec.containers.[b]", "spec.nodeSelector.pool"]
