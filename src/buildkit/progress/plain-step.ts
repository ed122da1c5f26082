import type { LogText, Status, Vertex } from './progress.ts';

/** A step of a build, or a group of them that is shown as one, with what is not printed of it yet. */
export class PlainStep {
  /** Number in the text, 0 until it is first printed. */
  index = 0;
  name = '';
  cached = false;
  error: string | undefined;
  /** A group of side issues: not shown until something in it matters. */
  isHidden = false;
  /** Lines to be printed, without the number in front of them. */
  lines: string[] = [];
  /** The last lines of its log, for the end. */
  tail: string[] = [];
  readonly statuses = new Map<string, Status>();
  readonly newStatuses = new Set<string>();
  readonly #members = new Map<string, Vertex>();
  /** When it ran: end by start, undefined while it does. */
  readonly #runs = new Map<number, number | undefined>();
  readonly #partialLines = new Map<LogText['stream'], string>();

  /** Takes in what a vertex has become; true when that is worth printing. */
  see(vertex: Vertex): boolean {
    const before = this.#members.get(vertex.digest);
    // A vertex is told a second time as if it had not begun.
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

  /** Makes lines of what was written without an end. */
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

  /** When it last ended, ms since the epoch. */
  get endMs(): number {
    return Math.max(0, ...[...this.#runs.values()].map(end => end ?? 0));
  }

  /** How long it ran in all, in ms, what overlaps counted once. */
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
    this.lines.push(...clean);
    this.tail = [...this.tail, ...clean].slice(-10);
  }
}

/** Seconds since the step began, as exact as it matters. */
function timeMark(sinceMs: number): string {
  const seconds = Number.isFinite(sinceMs) ? sinceMs / 1000 : 0;
  return `${seconds.toFixed(seconds < 10 ? 3 : seconds < 100 ? 2 : 1)} `;
}
