import { PlainStep } from './plain-step.ts';
import type { Progress, Status } from './progress.ts';

// How long a step keeps the floor while another one has something to say.
const floorMs = 5_000;
// A part of a step is told again after so much time or so much of it.
const statusMs = 5_000;
const statusShare = 0.05;

/**
 * The text of `--progress=plain`: steps are numbered in the order in which they come to be told, and one
 * has the floor at a time. Pure: the same calls give the same text.
 */
export class PlainLog {
  /** By digest, groups by their id; all steps of a group are the group. */
  readonly #steps = new Map<string, PlainStep>();
  readonly #changed = new Set<PlainStep>();
  readonly #printedStatuses = new Map<string, Status>();
  #current: PlainStep | undefined;
  #currentSinceMs = 0;
  #text = '';
  #count = 0;

  /** Takes in what is new; nothing is printed by that. */
  update({ vertices, statuses, warnings, logs }: Progress): void {
    for (const vertex of vertices) {
      const key = vertex.group?.id ?? vertex.digest;
      const step = this.#steps.get(key) ?? new PlainStep();
      this.#steps.set(key, step).set(vertex.digest, step);
      if (step.see(vertex)) this.#changed.add(step);
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

  /** What there is to print by now; call it again a little later. */
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

  /** All that is left, and the last lines of the steps that failed. */
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

  /** True when one of them goes on. */
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

/** Feeds a {@link PlainLog} to a function as time goes by. */
export interface PlainLogWriter {
  readonly onProgress: (progress: Progress) => void;
  /** To be called when the build has ended. */
  end(): void;
}

/** Writes the plain text of a build's progress, in pieces of whole lines, at most every `intervalMs`. */
export function plainLog(write: (text: string) => void, intervalMs = 150): PlainLogWriter {
  const log = new PlainLog();
  const writeText = (text: string) => {
    if (text !== '') write(text);
  };
  // Its own timer, since a step may get the floor although nothing new is told.
  let timer: NodeJS.Timeout | undefined;
  return {
    onProgress(progress) {
      log.update(progress);
      timer ??= setInterval(() => writeText(log.take()), intervalMs).unref();
    },
    end() {
      clearInterval(timer);
      writeText(log.end());
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

function statusText({ id, current, total, startedMs, completedMs, timeMs }: Status): string {
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
