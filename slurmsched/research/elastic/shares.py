"""The division of the GPUs among the applications inside, by each policy. Loops that compile.

Each function lists the applications that get GPUs, with their number of GPUs, and returns the length of the list. It is
called at every arrival and end, and where leases end. Arrays are passed on one by one: a tuple of many costs more than
what the loops do.
"""

from __future__ import annotations

from ...cluster.columns import FloatArray, IntArray
from ...policies.compiled import compiled, inner
from ...policies.ordering.wfq import place as place_in_class
from .state import AFS_L, EVENTS, FAIR, NOW, SEEN, SRSF, THEMIS, ApplicationData, ElasticRules, State
from .weighted_shares import share_out

_LEAST = 1e-9  #: GPUs; less is what rounding leaves
_place = inner(place_in_class)


@compiled
def share(data: ApplicationData, rules: ElasticRules, state: State) -> None:
    """Divide all GPUs among the applications inside, and set their paces."""
    if rules.kind == SRSF:
        count = _srsf(data, rules, state)
    elif rules.kind == AFS_L:
        count = _afs_l(data, rules, state)
    elif rules.kind == THEMIS:
        count = _themis(data, rules, state)
    elif rules.kind == FAIR:
        count = _fair(data, rules, state)
    else:
        count = _wfq(data, rules, state)
    state.running[0] = count
    at, gpus, pace, curve, speed = state.at, state.gpus, state.pace, data.curve, data.speed
    for place in range(count):
        row, whole = curve[at[place]], int(gpus[place])
        pace[place] = speed[row, whole]
        if gpus[place] > whole:
            pace[place] += (gpus[place] - whole) * (speed[row, whole + 1] - speed[row, whole])


@inner
def _srsf(data: ApplicationData, rules: ElasticRules, state: State) -> int:
    """Shortest remaining service first: GPU-seconds left on all the GPUs an application can use."""
    key, rows, first, count = state.scratch[0], state.rows, state.first[0], state.many[0]
    demand, curve, speed, left_s, size_factor = data.demand, data.curve, data.speed, state.left_s, state.size_factor
    for place in range(count):
        row = rows[first + place]
        value = left_s[row] * size_factor[row] * demand[row] / speed[curve[row], demand[row]]
        free = place
        while free > 0 and key[free - 1] > value:  # nearly in order from the last time
            key[free], rows[first + free] = key[free - 1], rows[first + free - 1]
            free -= 1
        key[free], rows[first + free] = value, row
    at, gpus, given, left = state.at, state.gpus, 0, rules.gpus
    while given < count and left > _LEAST:
        row = rows[first + given]
        at[given], gpus[given] = row, min(left, float(demand[row]))
        left -= gpus[given]
        given += 1
    return given


@inner
def _fair(data: ApplicationData, rules: ElasticRules, state: State) -> int:
    """Equal shares, to none more than it can use (max-min fairness)."""
    first, count = state.first[0], state.many[0]
    equal, wanted = state.scratch[0], state.scratch[1]
    at, demand = state.at, data.demand
    for place in range(count):
        row = state.rows[first + place]
        equal[place], wanted[place], at[place] = 1.0, demand[row], row
    share_out(rules.gpus, equal[:count], wanted[:count], state.gpus[:count])
    return int(count)


@inner
def _wfq(data: ApplicationData, rules: ElasticRules, state: State) -> int:
    """Classes by weight, first come first served in each, with caps lowered while a class has GPUs left."""
    share_of = state.scratch[0]
    classes = len(state.many)
    share_out(rules.gpus, rules.weights, state.wanted, share_of[:classes])
    rows, demand, curve, limits, at, gpus = state.rows, data.demand, data.curve, rules.limits, state.at, state.gpus
    last, given = len(limits) - 1, 0
    overtake, submit_s, size_s, left_s = rules.overtake, data.submit_s, data.size_s, state.left_s
    size_factor, key = state.size_factor, state.scratch[1]
    for group in range(classes):
        first = state.first[group]
        end = first + state.many[group]
        if overtake > 0 and end > first:
            served = first + state.served[group]
            _sort(rows, first, served, end, overtake, submit_s, size_s, left_s, size_factor, key)
        level = 0 if share_of[group] < state.wanted[group] else last
        before, left = given, share_of[group]
        while left > _LEAST and level <= last:
            given, left, place = before, share_of[group], first
            while place < end and left > _LEAST:
                row = rows[place]
                most = float(min(limits[level, curve[row]], demand[row]))
                if most > 0:
                    at[given], gpus[given] = row, min(left, most)
                    left -= gpus[given]
                    given += 1
                place += 1
            level += 1
        state.served[group] = given - before
    return given


@inner
def _sort(
    rows: IntArray, first: int, served: int, end: int, overtake: float, submit_s: FloatArray, size_s: FloatArray,
    left_s: FloatArray, size_factor: FloatArray, key: FloatArray,
) -> None:  # fmt: skip
    """Put the applications of a class in the order in which they are served.

    Only the keys of those up to *served*, which had GPUs, have changed, and only downwards; the last one may be new.
    """
    for place in range(first, min(served, end)):
        row, free = rows[place], place
        mine = _place(submit_s[row], left_s[row] * size_factor[row] * size_s[row], overtake)
        while free > first and key[free - 1] > mine:
            key[free], rows[free] = key[free - 1], rows[free - 1]
            free -= 1
        key[free], rows[free] = mine, row
    row, free = rows[end - 1], end - 1
    mine = _place(submit_s[row], left_s[row] * size_factor[row] * size_s[row], overtake)
    while free > first:
        other = rows[free - 1]
        if _place(submit_s[other], left_s[other] * size_factor[other] * size_s[other], overtake) <= mine:
            break
        rows[free] = other
        free -= 1
    rows[free] = row


@inner
def _afs_l(data: ApplicationData, rules: ElasticRules, state: State) -> int:
    """One GPU at a time to the application that gains most by it (Hwang et al., NSDI'21, algorithm AFS-L).

    ``best[k]`` is the winner among the first k + 1 candidates: it changes only from the last winner on.
    """
    rows, best = state.ints[0], state.ints[1]
    held, now, then = state.scratch[0], state.scratch[1], state.scratch[2]
    demand, curve, speed, left_s, size_factor = data.demand, data.curve, data.speed, state.left_s, state.size_factor
    at, gpus, given = state.at, state.gpus, 0
    count = state.many[0]
    for place in range(count):
        row = state.rows[state.first[0] + place]
        rows[place], held[place], now[place] = row, 0.0, 0.0
        then[place] = speed[curve[row], 1] / max(left_s[row] * size_factor[row], _LEAST)
    left, changed = rules.gpus, 0
    while left > _LEAST and count:
        best[0] = 0
        for place in range(max(changed, 1), count):
            best[place] = _better(now, then, place, best[place - 1])
        changed = best[count - 1]
        row = rows[changed]
        held[changed] += min(1.0, left)
        left -= 1.0
        if held[changed] < demand[row]:
            now[changed] = then[changed]
            then[changed] = speed[curve[row], int(held[changed]) + 1] / max(left_s[row] * size_factor[row], _LEAST)
            continue
        at[given], gpus[given] = row, held[changed]
        given += 1
        count -= 1
        for place in range(changed, count):
            rows[place], held[place] = rows[place + 1], held[place + 1]
            now[place], then[place] = now[place + 1], then[place + 1]
    for place in range(count):
        if held[place] > 0:
            at[given], gpus[given] = rows[place], held[place]
            given += 1
    return given


@inner
def _better(now: FloatArray, then: FloatArray, one: int, other: int) -> int:
    """Return the one of two candidates that gets the next GPU.

    *now* and *then* are one over their remaining times without and with it.
    """
    shorter, longer = (one, other) if now[one] > now[other] else (other, one)
    if now[shorter] == 0:
        return shorter if then[shorter] > then[longer] else longer
    gain = (then[shorter] - now[shorter]) / now[shorter]
    return shorter if gain > (then[longer] - now[longer]) / then[longer] else longer


@inner
def _themis(data: ApplicationData, rules: ElasticRules, state: State) -> int:
    """The application farthest behind its fair finish first (Mahajan et al., NSDI'20, without partial allocation)."""
    rows, late_s, fair_s, left_s = state.ints[0], state.scratch[0], state.scratch[1], state.scratch[2]
    at, gpus, demand, given = state.at, state.gpus, data.demand, 0
    clock, count = state.clock, state.many[0]
    for place in range(count):
        row = state.rows[state.first[0] + place]
        rows[place] = row
        met = (clock[SEEN] - state.clock_at_arrival[row]) / (clock[EVENTS] - state.events[row])
        fair_s[place] = data.service_s[row] * state.size_factor[row] / min(rules.gpus / met, float(demand[row]))
        late_s[place] = clock[NOW] - data.submit_s[row]
        left_s[place] = state.left_s[row] * state.size_factor[row]
    left = rules.gpus
    while left > _LEAST and count:
        worst, found = -1.0, 0
        for place in range(count):
            behind = (late_s[place] + left_s[place] / min(left, float(demand[rows[place]]))) / fair_s[place]
            if behind > worst:
                worst, found = behind, place
        at[given], gpus[given] = rows[found], min(left, float(demand[rows[found]]))
        left -= gpus[given]
        given += 1
        count -= 1
        for place in range(found, count):
            rows[place], left_s[place] = rows[place + 1], left_s[place + 1]
            late_s[place], fair_s[place] = late_s[place + 1], fair_s[place + 1]
    return given
