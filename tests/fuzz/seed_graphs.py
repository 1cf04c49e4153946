# SPDX-License-Identifier: Apache-2.0
"""Nodes of graphs, as cuGraphAddNode's record has them."""

from seed_records import Body, MEMORY, handle, item


def typed(node_type):
    return Body().put("I", node_type, 0)


def empty_node():
    return typed(5)


def memset_node():
    return typed(2).put("Q", MEMORY, 0).put("I", 7, 4).put("Q", 16, 1)


def host_node():
    return typed(3).put("Q", 5)


def event_node():
    return typed(7).put("Q", handle("event"))


def child_node():
    return typed(4).put("Q", handle("graph"))


def memory_operations():
    return typed(12).put("Q", 1).put("I", 1, 0).put("Q", MEMORY, 9)


def device_copy():
    return (
        typed(1)
        .put("I", 2, 0)
        .put("Q", MEMORY, 0, 0, 0, 64, 1)
        .put("I", 2, 0)
        .put("Q", MEMORY + 1024, 0, 0, 0, 64, 1)
        .put("Q", 64, 1, 1)
    )


def conditional():
    return typed(13).put("Q", 1).put("I", 0).put("Q", 1, handle("graph", 71))


def add_node(index, graph=None, stream=0, work=empty_node, after=()):
    body = Body().put("Q", handle("graph_node", index), graph or handle("graph"), stream) + work()
    body = Body(body).put("Q", len(after))
    for node in after:
        body.put("Q", handle("graph_node", node), 0)
    return item("cuGraphAddNode_v2", body)


def edges(call, *heads, flags=None, both=()):
    body = Body().put("Q", *heads)
    if flags is not None:
        body.put("I", flags)
    body.put("Q", len(both))
    for start, end in both:
        body.put("Q", handle("graph_node", start), handle("graph_node", end), 0)
    return item(call, body)
