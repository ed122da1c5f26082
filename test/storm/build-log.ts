/** Reads the log of a build whose only step writes numbered lines. */

/** The lines of the step, and `marker`: they are different in each build, so that no builder has the step already. */
export function numberedStep(marker: string, lines: number, pauseSeconds: number): string {
  return `for n in $(seq ${lines}); do echo ${marker} line $n; sleep ${pauseSeconds}; done`;
}

/** What a log says about the build. */
export interface ReadLog {
  /** True for a log that says how the build ended. */
  readonly isEnded: boolean;
  /** Why the log is wrong; undefined when it is right. */
  readonly fault: string | undefined;
}

const again = /The build starts again|: trying again$/;
const numbered = /^#(?<step>\d+) (?<time>[\d.]+) (?:.* )?line (?<number>\d+)$/;
const step = /^#(\d+) \[.*\] RUN /;
const end = /^The build (succeeded|failed): /;

/**
 * Checks a log, which may break off in the middle. A build may be tried several times: each attempt has the lines of the
 * step in order, from the first one, without gaps. The last attempt of a successful build has all of them, or has found the
 * finished step at the builder.
 */
export function readLog(text: string, lines: number): ReadLog {
  const attempts: string[][] = [[]];
  // A line that breaks off may end within its number.
  for (const line of text.slice(0, text.lastIndexOf('\n') + 1).split('\n')) {
    const isAgain = again.test(line);
    if (isAgain || beginsAgain(attempts.at(-1)?.at(-1), line)) attempts.push([]);
    if (!isAgain) attempts.at(-1)?.push(line);
  }
  for (const attempt of attempts) {
    const numbers = numbersIn(attempt);
    const wrong = numbers.findIndex((number, at) => number !== at + 1);
    if (wrong >= 0) return { isEnded: false, fault: `line ${numbers[wrong]} follows ${wrong}` };
  }
  const last = attempts.at(-1) ?? [];
  const ending = last.findLast(line => end.test(line));
  const isWhole = numbersIn(last).length === lines || isCached(last);
  const lacksLines = ending?.startsWith('The build succeeded') === true && !isWhole;
  return {
    isEnded: ending !== undefined,
    fault: lacksLines ? `the last attempt has ${numbersIn(last).length} lines` : undefined,
  };
}

/**
 * True when the builder itself runs the step again. It shares a step of two clients, such as those of a killed server and of the
 * next one, and when the first of them leaves, it may begin the step once more: its clock starts again.
 */
function beginsAgain(before: string | undefined, line: string): boolean {
  const [earlier, later] = [before, line].map(one => numbered.exec(one ?? '')?.groups);
  if (!earlier || !later || earlier.step !== later.step || later.number !== '1') return false;
  return Number(later.time) < Number(earlier.time);
}

function numbersIn(attempt: readonly string[]): number[] {
  return attempt.flatMap(line => {
    const number = numbered.exec(line)?.groups?.number;
    return number === undefined ? [] : [Number(number)];
  });
}

function isCached(attempt: readonly string[]): boolean {
  const [, number] = step.exec(attempt.find(line => step.test(line)) ?? '') ?? [];
  return attempt.includes(`#${number} CACHED`);
}
