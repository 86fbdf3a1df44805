"""Labels that divide the nodes of a resource among pools."""

import pytest

from scheduler.engine.node_labels import is_label, label_of


@pytest.mark.parametrize(
    ("labels", "label"),
    [
        ({"gpu": "a100"}, "gpu=a100"),
        ({"gpu": "h100", "zone": "a"}, "gpu=h100"),
        ({"gpu": "a100", "tier": "gold", "zone": "b"}, "gpu=a100"),
        ({"tier": "gold"}, "tier=gold"),
        ({"gpu": "v100"}, ""),
        ({}, ""),
    ],
)
def test_a_node_counts_by_the_first_of_its_labels_in_the_order_of_the_alphabet(labels, label):
    assert label_of(labels, ["tier=gold", "", "gpu=h100", "gpu=a100"]) == label


@pytest.mark.parametrize("text", ["gpu=a100", "nvidia.com/gpu.product=NVIDIA-A100-SXM4-80GB", "gpu=", "a/b=c"])
def test_what_kubernetes_takes_is_a_label(text):
    assert is_label(text)


@pytest.mark.parametrize("text", ["", "gpu", "=a100", "gpu = a100", "gpu=a100,gpu=h100", "Gpu/x=a", "-a=b", "a=b=c"])
def test_what_no_node_can_have_is_none(text):
    assert not is_label(text)
