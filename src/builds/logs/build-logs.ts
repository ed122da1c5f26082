import { type FileHandle, open, opendir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { maskAddresses } from '../../buildkit/index.ts';
import { appendBelow } from './append-below.ts';
import {
  readSteps,
  recordSteps,
  removeSteps,
  type StepRecord,
  type StepRecorder,
  type StepWriter,
} from './build-step.ts';
import { createLogIndexes } from './log-indexes.ts';
import type { LogLines } from './log-lines.ts';
import { closedCut, LogText, type Mask, plainPieces } from './log-text.ts';

/** The log of one build while it is being written. */
export interface LogWriter extends StepWriter {
  /**
   * Appends text of whole lines. Leaves out text beyond the size limit, and says so in the log.
   *
   * @param mask replaces what nobody may read. Default: users and passwords in addresses
   */
  write(text: string, mask?: Mask): void;
  /** Appends how the build has ended, also to a log that has reached the size limit. */
  conclude(text: string): void;
  /** Resolves when all text so far is in the file, or is lost. */
  written(): Promise<void>;
  /** Returns the steps of the last attempt, each in its last state. */
  lastSteps(): ReturnType<StepRecorder['lastSteps']>;
  /** Copies the whole log to where the other servers of the site find it. The build has ended, and nobody knows it yet. */
  share(): Promise<void>;
  /** Lets a copy that failed be repeated. The end of the build is stored: no other server writes this log any more. */
  settle(): void;
  /** Resolves when all text is in the file. Readers that follow the log then reach its end. */
  end(): Promise<void>;
}

/** Options for reading a log as text. */
export interface LogOptions {
  /** With the sequences that colour text on a terminal, and no others. Default: plain text. */
  readonly hasColours?: boolean | undefined;
  /** True when the build has ended: a log that has no end yet is not the right one. */
  readonly isEnded?: boolean;
}

/** The logs of builds, a file for each. */
export interface BuildLogs {
  /** Opens the log of a build; appends to the log of a build that starts again. */
  begin(id: string): LogWriter;
  /** Returns the whole log so far; undefined for a build without a log. */
  read(id: string, options?: LogOptions): Promise<string | undefined>;
  /** Yields the log from its beginning, until the build has ended or the signal is aborted. */
  follow(id: string, signal: AbortSignal, options?: LogOptions): AsyncGenerator<Buffer>;
  /** Returns the steps of a build so far; undefined for a build without a record of them. */
  steps(id: string): Promise<StepRecord | undefined>;
  /** Returns the log so far by lines; undefined for a build without a log. */
  lines(id: string): Promise<LogLines | undefined>;
  /** Removes the log of a build, and the record of its steps. */
  remove(id: string): Promise<void>;
  /** Removes all logs except those of known builds. */
  retain(isKnown: (id: string) => Promise<boolean>, signal?: AbortSignal): Promise<void>;
}

const maxBytes = 10 * 1024 * 1024;
// A slow disk must not let the text that waits for it grow without end.
const maxPendingChars = maxBytes;
const maxConclusion = 16 * 1024;
const cutMark = '\n[the log exceeds 10 MiB: the rest is not kept]\n';
// A colour of the line before may be open.
const lostText = '\n[part of the log is missing because it could not be written]\n';
const lostMark = `\u001b[0m${lostText}`;
const suffix = '.log';
const stepsSuffix = '.steps';
const pieceBytes = 64 * 1024;
// A shorter piece is copied, so that its buffer is used again: a reader that follows a log gets many.
const shortBytes = 4 * 1024;
// Each write takes three calls of the file system and wakes all readers; short steps follow each other within this time.
const writeAfterMs = 50;

type Written = { readonly raw: string; readonly mask: Mask; readonly isEnd: boolean } | 'restart';

interface Writing {
  isEnded: boolean;
  changed: PromiseWithResolvers<void>;
}

/** Returns the names of the files of a build: its log, and the record of its steps. */
export function logFilesOf(id: string): readonly string[] {
  return [`${id}${suffix}`, `${id}${stepsSuffix}`];
}

export function createBuildLogs(directory: string): BuildLogs {
  const writings = new Map<string, Writing>();
  const indexOf = createLogIndexes();
  // The id is made of hex digits, an underscore and a number, so it is a file name.
  const pathOf = (id: string) => join(directory, `${id}${suffix}`);
  const stepsOf = (id: string) => join(directory, `${id}${stepsSuffix}`);

  async function* followed(id: string, signal: AbortSignal): AsyncGenerator<Buffer> {
    const writing = writings.get(id);
    const stopped = new Promise<void>(resolve => {
      signal.addEventListener('abort', () => resolve(), { once: true });
    });
    await using log = openedLog(pathOf(id));
    while (!signal.aborted) {
      const changed = writing?.changed.promise;
      const isEnded = writing?.isEnded ?? true;
      yield* log.pieces();
      if (isEnded) return;
      await Promise.race([changed, stopped]);
    }
  }

  return {
    begin(id) {
      const writing: Writing = { isEnded: false, changed: Promise.withResolvers() };
      writings.set(id, writing);
      const announce = () => {
        writing.changed.resolve();
        writing.changed = Promise.withResolvers();
      };
      let size: number | undefined;
      let pending: Written[] = [];
      let pendingChars = 0;
      let isDropping = false;
      const cleaner = new LogText();
      let isLost = false;
      let chain: Promise<void> = Promise.resolve();
      let timer: NodeJS.Timeout | undefined;
      /** Writes all pending text; there may be a lot when the disk is slow. */
      const append = async () => {
        const given = pending;
        pending = [];
        pendingChars = 0;
        isDropping = false;
        if (given.length === 0) return;
        const isFull = (size ?? 0) > maxBytes;
        let text = '';
        let end = '';
        for (const one of given) {
          if (one === 'restart') cleaner.restart();
          else if (one.isEnd) end += await cleaner.clean(one.raw, one.mask);
          else if (!isFull) text += await cleaner.clean(one.raw, one.mask);
        }
        const isMissing = isLost && !isFull && text + end !== '';
        const bytes = Buffer.from(isMissing ? lostMark + text : text);
        size ??= await sizeOf(pathOf(id));
        const room = maxBytes - size;
        const cut = bytes.subarray(0, Math.max(room, 0));
        const isCut = room >= 0 && cut.length < bytes.length;
        const kept = isCut ? Buffer.from(closedCut(cut.toString()) + cutMark) : cut;
        const added = Buffer.concat([kept, Buffer.from(end)]);
        if (added.length === 0) return;
        await appendBelow(directory, pathOf(id), added);
        size += bytes.length;
        isLost = false;
        announce();
      };
      const take = (raw: string, mask: Mask, isEnd: boolean) => {
        pendingChars += raw.length;
        pending.push({ raw, mask, isEnd });
        timer ??= setTimeout(flush, writeAfterMs).unref();
      };
      const flush = (): Promise<void> => {
        clearTimeout(timer);
        timer = undefined;
        chain = chain.then(append).catch(lose);
        return chain;
      };
      // A full disk costs a part of the log, never the build or the server.
      const lose = () => {
        isLost = true;
      };
      const { written, ...steps } = recordSteps(stepsOf(id));
      return {
        ...steps,
        restartSteps() {
          pending.push('restart');
          steps.restartSteps();
        },
        // Everyone who knows the id of a build can read its log.
        write(text, mask = maskAddresses) {
          if (pendingChars <= maxPendingChars) take(text, mask, false);
          else if (!isDropping) {
            isDropping = true;
            take(lostText, mask, false);
          }
        },
        conclude(text) {
          take(text.slice(0, maxConclusion), maskAddresses, true);
        },
        async written() {
          await Promise.all([flush(), written()]);
        },
        async share() {},
        settle() {},
        async end() {
          await Promise.all([flush(), written()]);
          writing.isEnded = true;
          writings.delete(id);
          announce();
        },
      };
    },

    async read(id, { hasColours = false } = {}) {
      try {
        if (hasColours) return await readFile(pathOf(id), 'utf8');
        const pieces: Buffer[] = [];
        await stat(pathOf(id));
        for await (const piece of plainPieces(piecesOf(pathOf(id)))) pieces.push(piece);
        return Buffer.concat(pieces).toString();
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
        return writings.has(id) ? '' : undefined;
      }
    },

    follow(id, signal, { hasColours = false } = {}) {
      const pieces = followed(id, signal);
      return hasColours ? pieces : plainPieces(pieces);
    },

    steps: id => readSteps(stepsOf(id)),
    lines: id => indexOf(pathOf(id)),

    async remove(id) {
      await rm(pathOf(id), { force: true });
      await removeSteps(stepsOf(id));
    },

    async retain(isKnown, signal) {
      for await (const name of namesIn(directory)) {
        signal?.throwIfAborted();
        const ending = [suffix, stepsSuffix].find(one => name.endsWith(one));
        // A build has its row before it has a log.
        if (!ending || (await isKnown(name.slice(0, -ending.length)))) continue;
        await rm(join(directory, name), { force: true });
      }
    },
  };
}

/** Yields the names in a directory one by one, since there may be very many. */
async function* namesIn(directory: string): AsyncGenerator<string> {
  try {
    for await (const { name } of await opendir(directory)) yield name;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

async function sizeOf(path: string): Promise<number> {
  try {
    return (await stat(path)).size;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return 0;
    throw error;
  }
}

async function* piecesOf(path: string): AsyncGenerator<Buffer> {
  await using log = openedLog(path);
  yield* log.pieces();
}

/** Reads a log that may still grow. The file is opened once: a reader that follows a build sees many changes. */
function openedLog(path: string) {
  let file: FileHandle | undefined;
  let position = 0;
  let spare: Buffer | undefined;
  return {
    /** Yields what was appended since the last call; nothing while there is no file. */
    async *pieces(): AsyncGenerator<Buffer> {
      try {
        file ??= await open(path, 'r');
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
        throw error;
      }
      for (;;) {
        const buffer = spare ?? Buffer.allocUnsafe(pieceBytes);
        const { bytesRead } = await file.read(buffer, 0, pieceBytes, position);
        position += bytesRead;
        const piece = buffer.subarray(0, bytesRead);
        const isShort = bytesRead < shortBytes;
        spare = isShort ? buffer : undefined;
        if (bytesRead > 0) yield isShort ? Buffer.from(piece) : piece;
        // The end of the file.
        if (bytesRead < pieceBytes) return;
      }
    },
    async [Symbol.asyncDispose]() {
      await file?.close();
    },
  };
}
