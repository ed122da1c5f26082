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
