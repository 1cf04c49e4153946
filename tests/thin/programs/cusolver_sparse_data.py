# SPDX-License-Identifier: Apache-2.0
"""Sparse matrices of small integers for cuSOLVER's programs."""


def grid(width):
    """The Laplacian of a square grid, its diagonal made larger: rows, columns, values."""
    rows, columns, values = [0], [], []
    for at in range(width * width):
        near = [at - width, at - 1, at, at + 1, at + width]
        wrong = {at - 1: at % width == 0, at + 1: at % width == width - 1}
        for column in near:
            if 0 <= column < width * width and not wrong.get(column, False):
                columns.append(column)
                values.append(6.0 + at % 3 if column == at else -1.0)
        rows.append(len(columns))
    return rows, columns, values


def times(rows, columns, values, x):
    return [
        sum(values[k] * x[columns[k]] for k in range(rows[i], rows[i + 1]))
        for i in range(len(rows) - 1)
    ]


def factors(rows, columns, values):
    """L without its diagonal of ones, and U, each as rows, columns, values."""
    n = len(rows) - 1
    full = [[0.0] * n for _ in range(n)]
    for i in range(n):
        for k in range(rows[i], rows[i + 1]):
            full[i][columns[k]] = values[k]
    for k in range(n):
        for i in range(k + 1, n):
            full[i][k] /= full[k][k]
            for j in range(k + 1, n):
                full[i][j] -= full[i][k] * full[k][j]
    parts = []
    for wanted in (lambda i, j: j < i, lambda i, j: j >= i):
        starts, ids, numbers = [0], [], []
        for i in range(n):
            for j in range(n):
                if wanted(i, j) and full[i][j] != 0:
                    ids.append(j)
                    numbers.append(full[i][j])
            starts.append(len(ids))
        parts.append((starts, ids, numbers))
    return parts
