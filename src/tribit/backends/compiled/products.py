"""Products of sparse matrices, by rows, with dense ones."""

from __future__ import annotations

from tribit.backends.compiled.jit import compiled


@compiled()
def sparse_times(start, stop, indptr, columns, data, first, B, shift, base, out):
    """Fill in rows ``start`` to ``stop`` of ``S B + shift base'``.

    Parameters
    ----------
    indptr, columns, data : arrays
        S, as in a CSR matrix; ``data`` begins with entry ``first``.
    B, out : arrays of shape (n_columns, m), (n_rows, m)
        The other factor, and the product.
    shift, base : arrays of shape (n_rows,), (m,)
        What is added to the product; nothing where they are empty.
    """
    m = B.shape[1]
    for i in range(start, stop):
        if base.size:
            for j in range(m):
                out[i, j] = shift[i] * base[j]
        else:
            for j in range(m):
                out[i, j] = 0.0
        e, end = indptr[i], indptr[i + 1]
        # Four entries in one loop: a row of the product is read and written a quarter as often.
        while e + 4 <= end:
            c0, c1, c2, c3 = columns[e], columns[e + 1], columns[e + 2], columns[e + 3]
            d = e - first
            x0, x1, x2, x3 = data[d], data[d + 1], data[d + 2], data[d + 3]
            for j in range(m):
                out[i, j] += x0 * B[c0, j] + x1 * B[c1, j] + x2 * B[c2, j] + x3 * B[c3, j]
            e += 4
        while e < end:
            c, x = columns[e], data[e - first]
            for j in range(m):
                out[i, j] += x * B[c, j]
            e += 1
