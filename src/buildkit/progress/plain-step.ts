import type { LogText, Status, Vertex } from './progress.ts';

/** A step of a build, or a group of steps that is shown as one, with its output that is not printed yet. */
export class PlainStep {
  /** Number in the text; 0 until the step is first printed. */
  index = 0;
  name = '';
  cached = false;
  error: string | undefined;
  /** True for a group of minor steps, which is hidden until one of them matters. */
  isHidden = false;
  /** Lines to print, without the number in front of them. */
  lines: string[] = [];
  /** The last lines of the step's log, for the end of the text. */
  tail: string[] = [];
  readonly statuses = new Map<string, Status>();
  readonly newStatuses = new Set<string>();
  readonly #members = new Map<string, Vertex>();
  /** End of each run by its start; undefined while it runs. */
  readonly #runs = new Map<number, number | undefined>();
  readonly #partialLines = new Map<LogText['stream'], string>();

  /** Records the new state of a vertex. Returns true if the change is worth printing. */
  see(vertex: Vertex): boolean {
    const before = this.#members.get(vertex.digest);
    // The builder may report a vertex a second time as if it had not started.
    if (before?.startedMs !== undefined && vertex.startedMs === undefined) return false;
    this.#members.set(vertex.digest, vertex);
    if (vertex.startedMs !== undefined) this.#runs.set(vertex.startedMs, vertex.completedMs);
    const members = [...this.#members.values()];
    const { group } = vertex;
    this.name = group?.name ?? vertex.name;
    this.cached = members.every(({ cached }) => cached);
    this.error = members.find(({ error }) => error !== undefined)?.error;
    this.isHidden =
      group !== undefined &&
      this.error === undefined &&
      !members.some(member => member.startedMs !== undefined && !member.group?.weak);
    const isNews =
      before?.startedMs !== vertex.startedMs ||
      before?.completedMs !== vertex.completedMs ||
      before?.error !== vertex.error;
    return vertex.startedMs !== undefined && isNews;
  }

  seeStatus(status: Status): void {
    this.statuses.set(status.id, status);
    this.newStatuses.add(status.id);
  }

  seeLog({ stream, text, timeMs }: LogText): void {
    const mark = timeMark(timeMs - Math.max(...this.#runs.keys()));
    const lines = text.split('\n');
    const marked = lines.map((line, index) =>
      index === 0 ? (this.#partialLines.get(stream) ?? mark) + line : mark + line,
    );
    const last = marked.pop() ?? '';
    if (lines.at(-1) === '' && (lines.length > 1 || !this.#partialLines.has(stream))) {
      this.#partialLines.delete(stream);
    } else {
      this.#partialLines.set(stream, last);
    }
    this.#addLines(marked);
  }

  /** Turns output without a line end into lines. */
  flushPartialLines(): void {
    this.#addLines([...this.#partialLines.values()]);
    this.#partialLines.clear();
  }

  get isRunning(): boolean {
    return this.#runs.size > 0 && !this.isCompleted;
  }

  get isCompleted(): boolean {
    return this.#runs.size > 0 && [...this.#runs.values()].every(end => end !== undefined);
  }

  /** When the step first started, in ms since the epoch. */
  get startMs(): number {
    return Math.min(...this.#runs.keys());
  }

  /** When the step last ended, in ms since the epoch. */
  get endMs(): number {
    return Math.max(0, ...[...this.#runs.values()].map(end => end ?? 0));
  }

  /** Total run time in ms. Overlapping runs count once. */
  get spentMs(): number {
    let [spent, until] = [0, 0];
    for (const [start, end = start] of [...this.#runs].sort(([one], [other]) => one - other)) {
      spent += Math.max(0, end - Math.max(start, until));
      until = Math.max(until, end);
    }
    return spent;
  }

  #addLines(lines: readonly string[]): void {
    const clean = lines.map(line => line.replace(/\r$/, ''));
    // One call with an argument for each line would overflow the stack.
    for (const line of clean) this.lines.push(line);
    this.tail = [...this.tail, ...clean].slice(-10);
  }
}

/** Returns the seconds since the step started, with fewer decimals the longer it runs. */
function timeMark(sinceMs: number): string {
  const seconds = Number.isFinite(sinceMs) ? sinceMs / 1000 : 0;
  return `${seconds.toFixed(seconds < 10 ? 3 : seconds < 100 ? 2 : 1)} `;
}
