import type { LoggedStep } from './log-lines.ts';

/** Lines of one step that follow one another: from `from` to before `to`, counted from 0. */
interface Block {
  readonly step: number;
  readonly from: number;
  to: number;
}

interface FoundStep {
  readonly name: string;
  state: LoggedStep['state'];
  spentMs: number | undefined;
  readonly line: number;
}

// Steps and blocks beyond that are in the log, but cannot be found by their number.
const maxSteps = 1000;
const maxBlocks = 20_000;
const maxName = 400;
const [hash, zero, nine, space] = [35, 48, 57, 32];
// First letters of the lines that report the end of a step.
const endings = new Set([...'DCE'].map(letter => letter.charCodeAt(0)));

/** Finds the steps of the last attempt in the lines of a log, which it sees in their order. */
export class StepLines {
  #blocks: Block[] = [];
  readonly #steps = new Map<number, FoundStep>();

  /**
   * @param line number of the line, counted from 0
   * @param bytes its first bytes
   */
  see(line: number, bytes: Buffer): void {
    if (bytes[0] !== hash) {
      if (isNewAttempt(bytes)) {
        this.#blocks = [];
        this.#steps.clear();
      }
      return;
    }
    let at = 1;
    let step = 0;
    for (; at < 7; at += 1) {
      const digit = bytes[at] ?? 0;
      if (digit < zero || digit > nine) break;
      step = step * 10 + digit - zero;
    }
    if (step === 0 || bytes[at] !== space) return;
    const last = this.#blocks.at(-1);
    if (last?.step === step && last.to === line) last.to += 1;
    else if (this.#blocks.length < maxBlocks) {
      this.#blocks.push({ step, from: line, to: line + 1 });
    }
    const known = this.#steps.get(step);
    if (!known) {
      const name = bytes.subarray(at + 1, at + 1 + maxName).toString();
      if (this.#steps.size >= maxSteps) return;
      this.#steps.set(step, { name, state: 'running', spentMs: undefined, line: line + 1 });
    } else if (endings.has(bytes[at + 1] ?? 0)) {
      setEnd(known, bytes.subarray(at + 1, at + 40).toString());
    }
  }

  get steps(): LoggedStep[] {
    const all = [...this.#steps].map(([number, step]) => ({ number, ...step }));
    return all.sort((one, other) => one.number - other.number);
  }

  countOf(step: number): number {
    return this.#of(step).reduce((sum, { from, to }) => sum + to - from, 0);
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

  #of(step: number): Block[] {
    return this.#blocks.filter(block => block.step === step);
  }
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
  return (
    text === 'The server was restarted. The build starts again.' ||
    text.endsWith(trying) ||
    text.endsWith(handedOn)
  );
}

// Longer lines are output.
const maxMessage = 4000;
const trying = ': trying again';
/** Sluice began to make an image that BuildKit must make. */
const handedOn = ' a builder: BuildKit makes the image.';
const endsAttempt = ['The build starts again.', trying, handedOn];
