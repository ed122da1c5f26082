const turnMs = 8;
/** When work began in this turn of the event loop, in ms. Undefined between works. */
let began: number | undefined;
const waiting: (() => void)[] = [];

/**
 * Yields to the event loop when work has used up the current turn. All callers share the turns: fifty that work side by
 * side take one each after the other, and none blocks the event loop for longer than one caller alone would.
 */
export async function pauseTurn(): Promise<void> {
  if (began === undefined) {
    began = performance.now();
    setImmediate(nextTurn);
  }
  if (performance.now() - began < turnMs) return;
  await new Promise<void>(resolve => {
    waiting.push(resolve);
  });
}

function nextTurn(): void {
  const resume = waiting.shift();
  began = resume && performance.now();
  if (!resume) return;
  setImmediate(nextTurn);
  resume();
}

// Sorting this many items takes about a millisecond.
const runLength = 2048;

/** Returns the list sorted like `toSorted`, but yields to other work in between. */
export async function sortInTurns<T extends object>(
  list: readonly T[],
  compare: (one: T, other: T) => number,
): Promise<readonly T[]> {
  if (list.length <= runLength) return list.toSorted(compare);
  await pauseTurn();
  const middle = list.length >> 1;
  const left = await sortInTurns(list.slice(0, middle), compare);
  const right = await sortInTurns(list.slice(middle), compare);
  const sorted: T[] = [];
  let one = 0;
  let other = 0;
  for (;;) {
    const first = left[one];
    const second = right[other];
    if (first === undefined) return sorted.concat(right.slice(other));
    if (second === undefined) return sorted.concat(left.slice(one));
    if (compare(first, second) <= 0) {
      sorted.push(first);
      one += 1;
    } else {
      sorted.push(second);
      other += 1;
    }
    if (sorted.length % runLength === 0) await pauseTurn();
  }
}
