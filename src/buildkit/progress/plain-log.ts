import type { LogText, Progress, Status, Vertex } from './progress.ts';

// A step stays current for this long while another step has output.
const floorMs = 5_000;
// Progress of a part is printed again after this much time or this share of its total.
const statusMs = 5_000;
const statusShare = 0.05;

/**
 * Produces the text of `--progress=plain`. Steps are numbered in the order of their first output, and one step is
 * current at a time. Pure: the same calls return the same text.
 */
export class PlainLog {
  /** Steps by digest, groups by id. All steps of a group map to the group. */
  readonly #steps = new Map<string, PlainStep>();
  readonly #changed = new Set<PlainStep>();
  readonly #printedStatuses = new Map<string, Status>();
  #current: PlainStep | undefined;
  #currentSinceMs = 0;
  #text = '';
  #count: number;
  /** Steps whose state has changed since {@link takeSteps}. */
  readonly #news = new Set<PlainStep>();

  /** @param before number of the last step that is in the text already */
  constructor(before = 0) {
    this.#count = before;
  }

  /** Number of the last step in the text. */
  get count(): number {
    return this.#count;
  }

  /** Returns the steps in the text whose state has changed since the last call. */
  takeSteps(): readonly StepChange[] {
    const taken = [...this.#news].filter(step => step.index > 0);
    for (const step of taken) this.#news.delete(step);
    return taken.map(step => ({
      number: step.index,
      name: step.name,
      cached: step.cached,
      startedMs: step.startMs,
      completedMs: step.isCompleted ? step.endMs : undefined,
      error: step.error,
      isCancelled: step.error !== undefined && isCancelled(step.error),
    }));
  }

  /** Records new progress. Prints nothing. */
  update({ vertices, statuses, warnings, logs }: Progress): void {
    for (const vertex of vertices) {
      const key = vertex.group?.id ?? vertex.digest;
      const step = this.#steps.get(key) ?? new PlainStep();
      this.#steps.set(key, step).set(vertex.digest, step);
      if (!step.see(vertex)) continue;
      this.#changed.add(step);
      this.#news.add(step);
    }
    const change = (digest: string, what: (step: PlainStep) => void) => {
      const step = this.#steps.get(digest);
      if (!step) return;
      what(step);
      this.#changed.add(step);
    };
    for (const status of statuses) change(status.vertex, step => step.seeStatus(status));
    for (const { vertex, short } of warnings) {
      change(vertex, step => step.lines.push(`WARN: ${short}`));
    }
    for (const log of logs) change(log.vertex, step => step.seeLog(log));
  }

  /** Returns the text that is due now. Call it again a little later. */
  take(nowMs: number = Date.now()): string {
    const changed = [...this.#changed].filter(step => !step.isHidden);
    const completed = changed
      .filter(step => step.isCompleted)
      .sort((one, other) => one.endMs - other.endMs);
    const current = this.#current;
    if (current && completed.includes(current)) this.#print(current, nowMs);
    for (const step of completed) if (step !== current) this.#print(step, nowMs);
    const rest = changed.filter(step => step.isRunning);
    if (this.#current && rest.includes(this.#current)) this.#print(this.#current, nowMs);
    const next = rest.find(step => step !== this.#current);
    if (this.#current === undefined) {
      const open = next ?? [...this.#steps.values()].find(step => step.isRunning && !step.isHidden);
      if (open) this.#print(open, nowMs);
    } else if (next && nowMs - this.#currentSinceMs > floorMs) {
      this.#print(next, nowMs);
    }
    const text = this.#text;
    this.#text = '';
    return text;
  }

  /** Returns the remaining text, and the last lines of each failed step. */
  end(nowMs: number = Date.now()): string {
    const text = this.take(nowMs);
    for (const step of this.#changed) {
      if (step.isHidden) continue;
      step.flushPartialLines();
      this.#print(step, nowMs);
    }
    for (const step of new Set(this.#steps.values())) {
      if (step.error === undefined || isCancelled(step.error) || step.isHidden) continue;
      this.#text += ['------', ` > ${step.name}:`, ...step.tail, '------', ''].join('\n');
    }
    const rest = this.#text;
    this.#text = '';
    return text + rest;
  }

  #print(step: PlainStep, nowMs: number): void {
    if (step !== this.#current) this.#giveFloor(step, nowMs);
    const hasOpenStatus = this.#printStatuses(step);
    if (step.isCompleted) step.flushPartialLines();
    for (const line of step.lines) this.#line(step, line);
    step.lines = [];
    if (step.isCompleted && !hasOpenStatus) {
      this.#line(step, endOf(step));
      this.#current = undefined;
    }
    this.#changed.delete(step);
  }

  #giveFloor(step: PlainStep, nowMs: number): void {
    if (this.#current) this.#line(this.#current, '...');
    if (this.#count > 0) this.#text += '\n';
    if (step.index === 0) {
      this.#count += 1;
      step.index = this.#count;
    }
    this.#line(step, step.name);
    this.#current = step;
    this.#currentSinceMs = nowMs;
  }

  /** Prints the statuses that are due. Returns true if one of them is not complete. */
  #printStatuses(step: PlainStep): boolean {
    let hasOpen = false;
    for (const id of step.newStatuses) {
      const status = step.statuses.get(id);
      if (!status || !this.#isDue(status)) continue;
      this.#printedStatuses.set(id, status);
      if (status.completedMs === undefined) hasOpen = true;
      this.#line(step, statusText(status));
    }
    step.newStatuses.clear();
    return hasOpen;
  }

  #isDue(status: Status): boolean {
    const last = this.#printedStatuses.get(status.id);
    if (!last || status.completedMs !== undefined) return true;
    const share = status.total > 0 ? (status.current - last.current) / status.total : 0;
    return share >= statusShare || status.timeMs - last.timeMs >= statusMs;
  }

  #line(step: PlainStep, text: string): void {
    this.#text += `#${step.index} ${text}\n`;
  }
}

/** The new state of a step in the text. Times are ms since the epoch. */
export interface StepChange {
  /** Its lines begin with `#<number> `. */
  readonly number: number;
  readonly name: string;
  readonly cached: boolean;
  readonly startedMs: number;
  /** Undefined while it runs. */
  readonly completedMs: number | undefined;
  readonly error: string | undefined;
  /** True for a step that ended because another one failed. */
  readonly isCancelled: boolean;
}

/** Feeds a {@link PlainLog} to a function over time. */
export interface PlainLogWriter {
  readonly onProgress: (progress: Progress) => void;
  /** Writes the remaining text. Call it when the build has ended. Returns the number of the last step. */
  end(): number;
}

/**
 * Writes the plain text of a build's progress in whole lines, at most every `intervalMs`.
 *
 * @param onSteps called with the steps that have changed
 * @param before number of the last step that is in the text already
 */
export function plainLog(
  write: (text: string) => void,
  intervalMs = 150,
  onSteps: (steps: readonly StepChange[]) => void = () => {},
  before = 0,
): PlainLogWriter {
  const log = new PlainLog(before);
  const writeText = (text: string) => {
    if (text !== '') write(text);
    const steps = log.takeSteps();
    if (steps.length > 0) onSteps(steps);
  };
  // A timer, because a step may become current without new progress.
  let timer: NodeJS.Timeout | undefined;
  return {
    onProgress(progress) {
      log.update(progress);
      timer ??= setInterval(() => writeText(log.take()), intervalMs).unref();
    },
    end() {
      clearInterval(timer);
      writeText(log.end());
      return log.count;
    },
  };
}

function endOf({ error, cached, spentMs }: PlainStep): string {
  if (error !== undefined) return isCancelled(error) ? 'CANCELED' : `ERROR: ${error}`;
  return cached ? 'CACHED' : `DONE ${(spentMs / 1000).toFixed(1)}s`;
}

function isCancelled(error: string): boolean {
  return error.endsWith('context canceled');
}

/** Returns the text of a status, such as `sha256:ab 4.19MB / 12.50MB 0.5s done`. */
export function statusText({
  id,
  current,
  total,
  startedMs,
  completedMs,
  timeMs,
}: Omit<Status, 'vertex' | 'name'>): string {
  const amount = total > 0 ? ` ${byteText(current)} / ${byteText(total)}` : ` ${byteText(current)}`;
  const seconds = startedMs === undefined ? 0 : ((completedMs ?? timeMs) - startedMs) / 1000;
  return [
    id,
    total > 0 || current > 0 ? amount : '',
    seconds > 0.01 ? ` ${seconds.toFixed(1)}s` : '',
    completedMs === undefined ? '' : ' done',
  ].join('');
}

function byteText(bytes: number): string {
  if (bytes < 1000) return `${bytes}B`;
  const units = ['kB', 'MB', 'GB', 'TB'];
  const power = Math.min(units.length, Math.floor(Math.log10(bytes) / 3));
  return `${(bytes / 1000 ** power).toFixed(2)}${units[power - 1]}`;
}

/** A step of a build, or a group of steps that is shown as one, with its output that is not printed yet. */
class PlainStep {
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
