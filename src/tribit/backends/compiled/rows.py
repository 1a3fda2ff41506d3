"""The rows of P against a fixed Q, at the observed entries: values, derivatives, models and moves.

A row is done in runs of entries: their rows of Q are gathered once, and stay in the core's first cache through the
products with them. Products are in the type of Q; sums over runs, and solutions, in float64.

Arrays are passed whole, with the place where a row begins: a slice would count its owners, which threads share.
``indptr`` and ``columns`` are those of a CSR matrix; ``weights`` has the weights a and b of its entries.
"""

from __future__ import annotations

import numpy as np

from tribit.backends.compiled.algebra import solve
from tribit.backends.compiled.jit import kernel
from tribit.backends.compiled.logistic import derivatives, losses, total
from tribit.backends.rows import ARMIJO, MAX_HALVINGS

#: Entries in a run: with 32 factors in single precision a run of rows of Q and its multiples take 38 kB, which the
#: first cache of a core holds (48 kB here). By that count alone. A multiple of VECTOR_WIDTH.
RUN_ENTRIES = 128
#: Entries whose squares are added in one loop, and the multiple to which its columns are filled up with zeros: with
#: rests of other lengths most of the time would go into these.
VECTOR_WIDTH = 8


@kernel(any_order=True)
def gather(columns, start, n, Q, p, q, z):
    """Copy the rows of Q that n entries from ``start`` on belong to, and fill in their products with p."""
    m = Q.shape[1]
    for e in range(n):
        c = columns[start + e]
        for j in range(m):
            q[e, j] = Q[c, j]
    project(n, p, q, z)


@kernel(any_order=True)
def project(n, p, q, z):
    """Fill in the products of n rows of q with p."""
    for e in range(n):
        s = q.dtype.type(0.0)
        for j in range(p.size):
            s += q[e, j] * p[j]
        z[e] = s


@kernel()
def add_multiples(n, numbers, q, g):
    """Add the rows of q, each times a number, to g; four at a time, which reads and writes g a quarter as often."""
    kind = q.dtype.type
    whole = n - n % 4
    for e in range(0, whole, 4):
        x0, x1 = kind(numbers[e]), kind(numbers[e + 1])
        x2, x3 = kind(numbers[e + 2]), kind(numbers[e + 3])
        for j in range(g.size):
            g[j] += x0 * q[e, j] + x1 * q[e + 1, j] + x2 * q[e + 2, j] + x3 * q[e + 3, j]
    for e in range(whole, n):
        x = kind(numbers[e])
        for j in range(g.size):
            g[j] += x * q[e, j]


@kernel()
def add_squares(n, bends, q, bent, square, H):
    """Add the lower half of ``sum_e bends_e^2 q_e q_e'`` to H.

    ``bent`` and ``square`` are as :func:`room` makes them. Products of BLAS, which are as fast on one thread, wait for
    one another on two: a sweep over 2.2 million entries took .131 s by them and .092 s so with 16 columns of factors,
    and .214 s and .162 s with 32.
    """
    free = H.shape[0]
    for e in range(n):
        x = q.dtype.type(bends[e])
        for j in range(free):
            bent[e, j] = q[e, j] * x
    runs = (n + VECTOR_WIDTH - 1) // VECTOR_WIDTH
    for e in range(n, runs * VECTOR_WIDTH):
        for j in range(free):
            bent[e, j] = 0.0
    for i in range(free):
        stop = i // VECTOR_WIDTH * VECTOR_WIDTH + VECTOR_WIDTH
        for j in range(stop):
            square[i, j] = 0.0
        # Eight entries in one loop: a row of the sum is read and written an eighth as often. Their number as a product
        # is known not to be negative; with range(0, n, 8) it is not, and the loop took twice as long.
        for run in range(runs):
            e = run * VECTOR_WIDTH
            x0, x1, x2, x3 = bent[e, i], bent[e + 1, i], bent[e + 2, i], bent[e + 3, i]
            x4, x5, x6, x7 = bent[e + 4, i], bent[e + 5, i], bent[e + 6, i], bent[e + 7, i]
            for j in range(stop):
                near = (x0 * bent[e, j] + x1 * bent[e + 1, j]) + (
                    x2 * bent[e + 2, j] + x3 * bent[e + 3, j]
                )
                far = (x4 * bent[e + 4, j] + x5 * bent[e + 5, j]) + (
                    x6 * bent[e + 6, j] + x7 * bent[e + 7, j]
                )
                square[i, j] += near + far
        for j in range(i + 1):
            H[i, j] += square[i, j]


@kernel()
def room(free, kind):
    """Return arrays for multiples of a run of rows and for sums of their squares, as wide as vector instructions."""
    width = (free + VECTOR_WIDTH - 1) // VECTOR_WIDTH * VECTOR_WIDTH
    return np.zeros((RUN_ENTRIES, width), kind), np.empty((free, width), kind)


@kernel()
def scale_row(P, row, scale, p):
    """Fill in a row of P times the scale; rounded first, as P is elsewhere."""
    for j in range(p.size):
        p[j] = p.dtype.type(P[row, j]) * p.dtype.type(scale)


@kernel()
def value_of_row(start, stop, columns, weights, Q, p, q, z, loss):
    """Return the sum of the losses of a row, the entries from ``start`` to ``stop``."""
    value = 0.0
    for left in range(start, stop, RUN_ENTRIES):
        n = min(RUN_ENTRIES, stop - left)
        gather(columns, left, n, Q, p, q, z)
        losses(z, n, weights, left, loss)
        value += total(loss, n)
    return value


@kernel()
def values(start, stop, indptr, columns, weights, Q, P, scale, unit, found):
    """Fill in the values of rows ``start`` to ``stop``, which P holds from its first row on."""
    q, p = np.empty((RUN_ENTRIES, Q.shape[1]), Q.dtype), np.empty(Q.shape[1], Q.dtype)
    z, loss = np.empty(RUN_ENTRIES), np.empty(RUN_ENTRIES)
    for i in range(stop - start):
        scale_row(P, i, scale, p)
        left, right = indptr[start + i], indptr[start + i + 1]
        found[i] = unit * value_of_row(left, right, columns, weights, Q, p, q, z, loss)


@kernel()
def model_of_row(
    start, stop, columns, weights, Q, p, q, bent, z, first, bends, loss, g, sums, square, H
):
    """Return the sum of the losses of a row; fill in ``sum_j first_j q_j`` and half of ``sum_j bend_j^2 q_j q_j'``.

    There are as many unknowns as H has rows; its lower half is filled in.
    """
    free = H.shape[0]
    for i in range(free):
        sums[i] = 0.0
        for j in range(i + 1):
            H[i, j] = 0.0
    value = 0.0
    for left in range(start, stop, RUN_ENTRIES):
        n = min(RUN_ENTRIES, stop - left)
        gather(columns, left, n, Q, p, q, z)
        derivatives(z, n, weights, left, first, bends, loss)
        value += total(loss, n)
        for j in range(g.size):
            g[j] = 0.0
        add_multiples(n, first, q, g)
        for j in range(free):
            sums[j] += g[j]
        add_squares(n, bends, q, bent, square, H)
    return value


@kernel()
def models(
    start, stop, indptr, columns, weights, Q, P, scale, unit, slope, found, gradients, curvatures
):
    """Fill in values, gradients and curvatures of rows ``start`` to ``stop``, which P holds from its first row on."""
    free, m, kind = gradients.shape[1], Q.shape[1], Q.dtype
    p, g, sums = np.empty(m, kind), np.empty(m, kind), np.empty(free)
    q = np.empty((RUN_ENTRIES, m), kind)
    bent, square = room(free, kind)
    z, first, bends, loss = (
        np.empty(RUN_ENTRIES),
        np.empty(RUN_ENTRIES),
        np.empty(RUN_ENTRIES),
        np.empty(RUN_ENTRIES),
    )
    H = np.empty((free, free))
    for i in range(stop - start):
        scale_row(P, i, scale, p)
        left, right = indptr[start + i], indptr[start + i + 1]
        found[i] = unit * model_of_row(
            left, right, columns, weights, Q, p, q, bent, z, first, bends, loss, g, sums, square, H
        )
        for j in range(free):
            gradients[i, j] = sums[j] * (unit * slope)
            for k in range(j + 1):
                curvatures[i, j, k] = curvatures[i, k, j] = H[j, k] * (unit * slope * slope)


@kernel()
def firsts(start, stop, indptr, columns, weights, places, Q, P, scale, unit, found, in_P):
    """Return the sum of the losses of rows ``start`` to ``stop``; fill in first derivatives and their sums times q.

    Derivatives and sums are times the unit. The derivative of entry e goes to ``found[places[e]]``.
    """
    m, kind = Q.shape[1], Q.dtype
    p, g, q = np.empty(m, kind), np.empty(m, kind), np.empty((RUN_ENTRIES, m), kind)
    z, first, bends, loss = (
        np.empty(RUN_ENTRIES),
        np.empty(RUN_ENTRIES),
        np.empty(RUN_ENTRIES),
        np.empty(RUN_ENTRIES),
    )
    value = 0.0
    for row in range(start, stop):
        scale_row(P, row, scale, p)
        for j in range(m):
            in_P[row, j] = 0.0
        for left in range(indptr[row], indptr[row + 1], RUN_ENTRIES):
            n = min(RUN_ENTRIES, indptr[row + 1] - left)
            gather(columns, left, n, Q, p, q, z)
            derivatives(z, n, weights, left, first, bends, loss)
            value += total(loss, n)
            for e in range(n):
                first[e] *= unit
                found[places[left + e]] = first[e]
            for j in range(m):
                g[j] = 0.0
            add_multiples(n, first, q, g)
            for j in range(m):
                in_P[row, j] += g[j]
    return value


@kernel()
def move(
    start,
    stop,
    indptr,
    columns,
    weights,
    Q,
    P,
    scale,
    unit,
    slope,
    ridge,
    centre,
    rounding,
    moved,
    found,
):
    """Move rows ``start`` to ``stop`` to the minimisers of their models (:func:`tribit.backends.rows.half_sweep`).

    For rows without a ball and without bounds, each with a backtracking line search on its own objective. ``ridge`` has
    one row where all have the same, ``centre`` none where the ridge pulls to 0. The columns of ``found`` are the values
    before and the gains.
    """
    free, m, kind = ridge.shape[1], Q.shape[1], Q.dtype
    p, g, sums = np.empty(m, kind), np.empty(m, kind), np.empty(free)
    q = np.empty((RUN_ENTRIES, m), kind)
    bent, square = room(free, kind)
    z, first, bends, loss = (
        np.empty(RUN_ENTRIES),
        np.empty(RUN_ENTRIES),
        np.empty(RUN_ENTRIES),
        np.empty(RUN_ENTRIES),
    )
    H, L = np.empty((free, free)), np.empty((free, free))
    step, pulled, bend_unit = np.empty(free), np.empty(free), unit * slope * slope
    for row in range(start, stop):
        scale_row(P, row, scale, p)
        own = row if ridge.shape[0] > 1 else 0
        left, right = indptr[row], indptr[row + 1]
        value = unit * model_of_row(
            left, right, columns, weights, Q, p, q, bent, z, first, bends, loss, g, sums, square, H
        )
        trace = 0.0
        for j in range(free):
            trace += H[j, j] * bend_unit
        # Keeps a direction that is flat, or made flat by rounding, solvable: p then moves little along it.
        lift = 4.0 * rounding * trace + 1e-12
        for j in range(free):
            pulled[j] = P[row, j] - (centre[row, j] if centre.shape[0] else 0.0)
            value += 0.5 * ridge[own, j] * pulled[j] * pulled[j]
            sums[j] = sums[j] * (unit * slope) + ridge[own, j] * pulled[j]
            step[j] = -sums[j]
            for k in range(j + 1):
                H[j, k] *= bend_unit
            H[j, j] += ridge[own, j] + lift
        solve(H, L, step, lift)
        falls = 0.0
        for j in range(free):
            falls += sums[j] * step[j]
        if not falls <= 0.0:  # a step that promises no gain, or is NaN: the row stays
            falls = 0.0
            for j in range(free):
                step[j] = 0.0
        # Differences below the rounding error of a row's sum decide nothing.
        bar = value + rounding * (abs(value) + Q.shape[0])
        length = 1.0
        for turn in range(MAX_HALVINGS + 1):
            if turn == MAX_HALVINGS:  # it never fell enough: the row stays
                length = 0.0
                break
            reached = 0.0
            for j in range(free):
                p[j] = kind.type(P[row, j] + length * step[j]) * kind.type(scale)
                reached += 0.5 * ridge[own, j] * (pulled[j] + length * step[j]) ** 2
            if right - left <= RUN_ENTRIES:  # the model has gathered all of them
                project(right - left, p, q, z)
                losses(z, right - left, weights, left, loss)
                reached += unit * total(loss, right - left)
            else:
                reached += unit * value_of_row(left, right, columns, weights, Q, p, q, z, loss)
            # Written so that a NaN is a failure.
            if reached <= bar + ARMIJO * length * falls:
                break
            length *= 0.5
        for j in range(free):
            moved[row, j] = P[row, j] + length * step[j]
        found[row, 0] = value
        found[row, 1] = -0.5 * falls
