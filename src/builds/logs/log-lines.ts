import { stripVTControlCharacters } from 'node:util';
import { allPackages, type PartProgress, readProgress } from '../../foundation/part-progress.ts';

/** A line of a log. */
export interface LogLine {
  /** Counted from 1. */
  readonly number: number;
  /** Without colours. */
  readonly text: string;
  /** With the sequences that colour text on a terminal, and no others. */
  readonly coloured: string;
  /** True for a line of which only the beginning is here. */
  readonly isCut: boolean;
}

/** A step as the text of the log shows it. */
export interface LoggedStep {
  readonly number: number;
  readonly name: string;
  readonly state: 'running' | 'done' | 'cached' | 'failed' | 'cancelled';
  /** How long it took in ms; undefined where the log does not say it. */
  readonly spentMs: number | undefined;
  /** Its first line in the log. */
  readonly line: number;
  readonly progress: StepProgress;
}

/** How far a running step is, as far as the log says it. Nothing after the end of the step. */
export interface StepProgress {
  /** All packages of an environment together; undefined for another step. */
  readonly all: PartProgress | undefined;
  /** Downloads and other parts that go on. */
  readonly parts: readonly PartProgress[];
  /** True if more parts go on than these. */
  readonly hasMore: boolean;
  /** Bytes of the parts that have ended. */
  readonly doneBytes: number;
}

/** A log by its lines. Reading some of them does not read the whole log. */
export interface LogLines {
  /** Number of lines. */
  readonly total: number;
  /** Steps of the last attempt, in the order of their numbers. */
  readonly steps: readonly LoggedStep[];
  /** False if there are so many steps, or they write in turns so often, that some of their lines are in the log only. */
  readonly hasAllOfSteps: boolean;
  /** Returns the number of lines of a step. */
  countOf(step: number): number;
  /**
   * Returns the lines from one position to before another, both counted from 0.
   *
   * @param step counts and returns only the lines of this step
   */
  read(from: number, to: number, step?: number): Promise<readonly LogLine[]>;
  /** Returns the first lines that contain a text, in upper or lower case. */
  search(text: string, most: number): Promise<readonly LogLine[]>;
}

/** Lines of one step that follow one another: from `from` to before `to`, counted from 0. */
interface Block {
  readonly from: number;
  to: number;
}

interface FoundStep {
  readonly name: string;
  state: LoggedStep['state'];
  spentMs: number | undefined;
  readonly line: number;
  readonly parts: Map<string, PartProgress>;
  all: PartProgress | undefined;
  hasMore: boolean;
  doneBytes: number;
}

// Steps and blocks beyond that are in the log, but cannot be found by their number.
const maxSteps = 1000;
const maxBlocks = 20_000;
const maxName = 400;
// Parts of all running steps together: each takes some hundred bytes, and a page shows fewer.
const maxParts = 200;
const [hash, zero, nine, space, point] = [35, 48, 57, 32, 46];
// First letters of the lines that report the end of a step.
const stepEndings = new Set([...'DCE'].map(letter => letter.charCodeAt(0)));

/** Finds the steps of the last attempt in the lines of a log, which it sees in their order. */
export class StepLines {
  /** By step. */
  #blocks = new Map<number, Block[]>();
  #blockCount = 0;
  #isWhole = true;
  readonly #counts = new Map<number, number>();
  readonly #steps = new Map<number, FoundStep>();
  /** Parts of all steps that go on. */
  #partCount = 0;

  /**
   * @param line number of the line, counted from 0
   * @param bytes contains the line
   * @param start where the line begins in them
   * @param end where the line, or what is read of it, ends in them
   */
  see(line: number, bytes: Buffer, start: number, end: number): void {
    if (bytes[start] !== hash || end === start) {
      if (end > start && isNewAttempt(bytes.subarray(start, end))) {
        this.#blocks.clear();
        this.#counts.clear();
        this.#blockCount = 0;
        this.#isWhole = true;
        this.#steps.clear();
        this.#partCount = 0;
      }
      return;
    }
    const latest = Math.min(start + 7, end);
    let at = start + 1;
    let step = 0;
    for (; at < latest; at += 1) {
      const digit = bytes[at] ?? 0;
      if (digit < zero || digit > nine) break;
      step = step * 10 + digit - zero;
    }
    if (step === 0 || at >= end || bytes[at] !== space) return;
    this.#addTo(step, line);
    const known = this.#steps.get(step);
    if (!known) {
      if (this.#steps.size >= maxSteps) {
        this.#isWhole = false;
        return;
      }
      const text = bytes.toString('utf8', at + 1, Math.min(at + 1 + maxName, end));
      const name = stripVTControlCharacters(text);
      this.#steps.set(step, {
        name,
        state: 'running',
        spentMs: undefined,
        line: line + 1,
        parts: new Map(),
        all: undefined,
        hasMore: false,
        doneBytes: 0,
      });
    } else if (stepEndings.has(bytes[at + 1] ?? 0)) {
      setEnd(known, bytes.toString('utf8', at + 1, Math.min(at + 40, end)));
      if (known.state !== 'running') this.#forgetParts(known);
    } else if (known.state === 'running' && !isOutput(bytes, at + 1, end)) {
      this.#seePart(known, bytes.toString('utf8', at + 1, Math.min(at + 1 + maxName, end)));
    }
  }

  #seePart(step: FoundStep, text: string): void {
    const part = readProgress(text);
    if (!part) return;
    const { parts } = step;
    if (part.id === allPackages) step.all = part;
    else if (part.isDone) {
      step.doneBytes += part.totalBytes || part.bytes;
      if (parts.delete(part.id)) this.#partCount -= 1;
      if (parts.size === 0) step.hasMore = false;
    } else if (parts.has(part.id)) parts.set(part.id, part);
    else if (this.#partCount < maxParts) {
      parts.set(part.id, part);
      this.#partCount += 1;
    } else step.hasMore = true;
  }

  #forgetParts(step: FoundStep): void {
    this.#partCount -= step.parts.size;
    step.parts.clear();
    [step.all, step.hasMore, step.doneBytes] = [undefined, false, 0];
  }

  #addTo(step: number, line: number): void {
    const blocks = this.#blocks.get(step);
    const last = blocks?.at(-1);
    if (last?.to !== line && this.#blockCount >= maxBlocks) {
      this.#isWhole = false;
      return;
    }
    this.#counts.set(step, this.countOf(step) + 1);
    if (last?.to === line) last.to += 1;
    else {
      this.#blockCount += 1;
      const block = { from: line, to: line + 1 };
      if (blocks) blocks.push(block);
      else this.#blocks.set(step, [block]);
    }
  }

  get steps(): LoggedStep[] {
    const all = [...this.#steps].map(([number, step]): LoggedStep => {
      const { name, state, spentMs, line, parts, hasMore, doneBytes } = step;
      const progress = { all: step.all, parts: [...parts.values()], hasMore, doneBytes };
      return { number, name, state, spentMs, line, progress };
    });
    return all.sort((one, other) => one.number - other.number);
  }

  /** False if lines of steps, or steps, are in the log only. */
  get isWhole(): boolean {
    return this.#isWhole;
  }

  countOf(step: number): number {
    return this.#counts.get(step) ?? 0;
  }

  /** Returns the lines between two positions among the lines of a step, as ranges of the whole log. */
  rangesOf(step: number, from: number, to: number): { from: number; to: number }[] {
    const ranges: { from: number; to: number }[] = [];
    let before = 0;
    for (const block of this.#of(step)) {
      const first = Math.max(from - before, 0);
      const end = Math.min(to - before, block.to - block.from);
      if (first < end) ranges.push({ from: block.from + first, to: block.from + end });
      before += block.to - block.from;
      if (before >= to) break;
    }
    return ranges;
  }

  #of(step: number): readonly Block[] {
    return this.#blocks.get(step) ?? [];
  }
}

/** Returns true for a line of output, which begins with its seconds: most lines of a log do. */
function isOutput(bytes: Buffer, start: number, end: number): boolean {
  let at = start;
  for (; at < end; at += 1) {
    const digit = bytes[at] ?? 0;
    if (digit < zero || digit > nine) break;
  }
  return at > start && bytes[at] === point;
}

function setEnd(step: FoundStep, text: string): void {
  const [, word, seconds] = /^(?:(DONE) (\d+\.\d)s|CACHED|ERROR: |CANCELED)/.exec(text) ?? [];
  if (word !== undefined) {
    if (step.state === 'running') step.state = 'done';
    step.spentMs = Number(seconds) * 1000;
  } else if (text.startsWith('CACHED')) step.state = 'cached';
  else if (text.startsWith('ERROR: ')) step.state = 'failed';
  else if (text.startsWith('CANCELED')) step.state = 'cancelled';
}

/** Returns whether the steps are counted from 1 again after a line. */
function isNewAttempt(bytes: Buffer): boolean {
  if (bytes.length > maxMessage || !endsAttempt.some(end => bytes.includes(end))) return false;
  const text = bytes.toString();
  if (outputStart.test(text)) return false;
  return (
    text === 'The server was restarted. The build starts again.' ||
    text.endsWith(tryingAgain) ||
    text.endsWith(handedOn)
  );
}

// The last lines of a failed step begin with its seconds, those in the reason of a failed build are indented, and a reason
// may name anything.
const outputStart = /^(?:\s|-?\d+\.\d+ |The build failed: )/;
// Longer lines are output.
const maxMessage = 4000;
const tryingAgain = ': trying again';
/** Sluice began to make an image that BuildKit must make. */
const handedOn = ' a builder: BuildKit makes the image.';
const endsAttempt = ['The build starts again.', tryingAgain, handedOn];
