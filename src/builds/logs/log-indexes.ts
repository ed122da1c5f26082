import { type FileHandle, open } from 'node:fs/promises';
import { boundedCache } from '../../foundation/bounded-cache.ts';
import { pauseTurn } from '../../foundation/pause-turn.ts';
import { SingleFlight } from '../../foundation/single-flight.ts';
import { type LogLine, type LogLines, StepLines } from './log-lines.ts';
import { closedCut, withoutColours } from './log-text.ts';

// Logs whose lines can be found without reading them again.
const keptIndexes = 32;
/** Bytes that are read at once: of a log that is not known yet, and for a page of lines. */
const [pieceBytes, pageBytes] = [256 * 1024, 48 * 1024];
/** Lines between two of which the position is known. */
const stride = 128;
/** Lines between two of which all are read: the next one is not looked up. */
const farLines = 2048;
/** Short lines between two of which others may have a turn. */
const pauseLines = 8192;
/** Bytes of a line that are read. */
const maxLineBytes = 4096;

/** Returns a function that opens a log by its lines. It reads only what was written since the last call. */
export function createLogIndexes(): (path: string) => Promise<LogLines | undefined> {
  const indexes = boundedCache<string, LogIndex>(keptIndexes);
  return async path => {
    let index = indexes.get(path);
    if (!index) {
      index = new LogIndex(path);
      indexes.set(path, index);
    }
    return (await index.refresh()) ? index : undefined;
  };
}

class LogIndex implements LogLines {
  readonly #path: string;
  /** Where each {@link stride}th line begins. */
  #marks: number[] = [0];
  #total = 0;
  /** Bytes of the whole lines so far. */
  #size = 0;
  #found = new StepLines();
  readonly #refreshing = new SingleFlight<boolean>();

  constructor(path: string) {
    this.#path = path;
  }

  get total() {
    return this.#total;
  }

  get steps() {
    return this.#found.steps;
  }

  get hasAllOfSteps() {
    return this.#found.isWhole;
  }

  countOf(step: number) {
    return this.#found.countOf(step);
  }

  /** Reads new lines; false for a log that does not exist. Callers at the same time share the work. */
  refresh(): Promise<boolean> {
    return this.#refreshing.run(() => this.#extend());
  }

  async read(from: number, to: number, step?: number) {
    const end = Math.min(to, this.#total);
    const ranges = step === undefined ? [{ from, to: end }] : this.#found.rangesOf(step, from, to);
    const lines: LogLine[] = [];
    const left = ranges.filter(range => range.from < range.to);
    await using file = await open(this.#path);
    while (left[0]) {
      const start = Math.floor(left[0].from / stride);
      let isFar = false;
      const first = { number: start * stride, position: this.#marks[start] ?? 0 };
      await eachLineFrom(file, first, pageBytes, (number, line) => {
        const [range, next] = left;
        if (range && number >= range.from) lines.push(line());
        if (range && number + 1 < range.to) return true;
        left.shift();
        isFar = next !== undefined && next.from - number > farLines;
        return next !== undefined && !isFar;
      });
      if (!isFar) break;
    }
    return lines;
  }

  async search(text: string, most: number) {
    const wanted = text.toLowerCase();
    const lines: LogLine[] = [];
    if (wanted === '') return lines;
    await using file = await open(this.#path);
    await eachLineFrom(file, { number: 0, position: 0 }, pieceBytes, (_, lineAt) => {
      const line = lineAt();
      if (line.text.toLowerCase().includes(wanted)) lines.push(line);
      return lines.length < most;
    });
    return lines;
  }

  async #extend(): Promise<boolean> {
    try {
      await using file = await open(this.#path);
      const { size } = await file.stat();
      if (size < this.#size) {
        [this.#marks, this.#total, this.#size, this.#found] = [[0], 0, 0, new StepLines()];
      }
      if (size === this.#size) return true;
      const piece = Math.min(size - this.#size, pieceBytes);
      await eachLine(file, this.#size, piece, (bytes, start, end, after) => {
        this.#found.see(this.#total, bytes, start, end);
        this.#total += 1;
        this.#size = after;
        if (this.#total % stride === 0) this.#marks.push(after);
        return true;
      });
      return true;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
      return false;
    }
  }
}

/** Visits the lines of a file from a line on, whose position is known, until the visitor returns false. */
async function eachLineFrom(
  file: FileHandle,
  first: { readonly number: number; readonly position: number },
  bytesAtOnce: number,
  visit: (number: number, line: () => LogLine) => boolean,
): Promise<void> {
  let { number } = first;
  await eachLine(file, first.position, bytesAtOnce, (bytes, start, end) => {
    const at = number;
    number += 1;
    return visit(at, () => lineOf(at, bytes, start, end));
  });
}

/**
 * Visits the whole lines of a file until the visitor returns false: the bytes that contain a line, where it begins and
 * ends in them, and the position after it in the file. A line longer than {@link maxLineBytes} ends a byte later.
 */
async function eachLine(
  file: FileHandle,
  from: number,
  bytesAtOnce: number,
  visit: (bytes: Buffer, start: number, end: number, after: number) => boolean,
): Promise<void> {
  const buffer = Buffer.allocUnsafe(bytesAtOnce);
  let rest = Buffer.alloc(0);
  for (let position = from; ; ) {
    const { bytesRead } = await file.read(buffer, 0, bytesAtOnce, position);
    if (bytesRead === 0) return;
    const piece = buffer.subarray(0, bytesRead);
    let start = 0;
    let count = 0;
    for (let end = nextLineEnd(piece, 0); end >= 0; end = nextLineEnd(piece, start)) {
      count += 1;
      if (count % pauseLines === 0) await pauseTurn();
      const after = position + end + 1;
      let goesOn: boolean;
      if (rest.length === 0) {
        goesOn = visit(piece, start, Math.min(end, start + maxLineBytes + 1), after);
      } else {
        const whole = Buffer.concat([rest, piece.subarray(0, end)]);
        rest = Buffer.alloc(0);
        goesOn = visit(whole, 0, Math.min(whole.length, maxLineBytes + 1), after);
      }
      start = end + 1;
      if (!goesOn) return;
    }
    // One byte more than is shown, so that the line counts as cut.
    rest = Buffer.concat([rest, piece.subarray(start)]).subarray(0, maxLineBytes + 1);
    position += bytesRead;
    await pauseTurn();
  }
}

/** That of `Buffer` checks its arguments, which takes longer than most lines. */
function nextLineEnd(bytes: Buffer, from: number): number {
  return Uint8Array.prototype.indexOf.call(bytes, 10, from);
}

function lineOf(number: number, bytes: Buffer, start: number, end: number): LogLine {
  const isCut = end - start > maxLineBytes;
  const text = bytes.toString('utf8', start, isCut ? start + maxLineBytes : end);
  const coloured = isCut ? closedCut(text) : text.replace(/\r$/, '');
  return { number: number + 1, text: withoutColours(coloured), coloured, isCut };
}
