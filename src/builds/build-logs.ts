import { appendFile, mkdir, open, opendir, readFile, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';
import { maskAddresses } from '../buildkit/index.ts';

/** The log of one build while it is written. */
export interface LogWriter {
  /** Appends text; what is beyond the bound is left out, and that is said. */
  write(text: string): void;
  /** Resolves when everything until now is in the file, or is lost. */
  written(): Promise<void>;
  /** Resolves when all of it is in the file; who follows comes to the end. */
  end(): Promise<void>;
}

/** The logs of builds, a file for each. */
export interface BuildLogs {
  /** Goes on after what is there of a build that begins again. */
  begin(id: string): LogWriter;
  /** The whole log so far, undefined when there is none. */
  read(id: string): Promise<string | undefined>;
  /** The log from its beginning, piece by piece, until the build has ended or the signal says so. */
  follow(id: string, signal: AbortSignal): AsyncGenerator<Buffer>;
  /** Removes the log of a build. */
  remove(id: string): Promise<void>;
  /** Removes the logs of all builds but those that are known. */
  retain(isKnown: (id: string) => Promise<boolean>, signal?: AbortSignal): Promise<void>;
}

const maxBytes = 10 * 1024 * 1024;
const cutMark = '\n[the log exceeds 10 MiB: the rest is not kept]\n';
const lostMark = '\n[part of the log is missing because it could not be written]\n';
const suffix = '.log';
const pieceBytes = 64 * 1024;

interface Writing {
  isEnded: boolean;
  changed: PromiseWithResolvers<void>;
}

export function createBuildLogs(directory: string): BuildLogs {
  const writings = new Map<string, Writing>();
  // The id is made of hex digits, an underscore and a number, so it is a file name.
  const pathOf = (id: string) => join(directory, `${id}${suffix}`);

  return {
    begin(id) {
      const writing: Writing = { isEnded: false, changed: Promise.withResolvers() };
      writings.set(id, writing);
      const announce = () => {
        writing.changed.resolve();
        writing.changed = Promise.withResolvers();
      };
      let size: number | undefined;
      let pending = '';
      let isLost = false;
      let chain: Promise<void> = Promise.resolve();
      /** All that has come until now: much of it when the disk is slow. */
      const append = async () => {
        const text = isLost && pending !== '' ? lostMark + pending : pending;
        const bytes = Buffer.from(text);
        pending = '';
        if (size === undefined) {
          await mkdir(directory, { recursive: true, mode: 0o700 });
          size = await sizeOf(pathOf(id));
        }
        const room = maxBytes - size;
        if (bytes.length === 0 || room < 0) return;
        const cut = bytes.subarray(0, room);
        const kept = cut.length < bytes.length ? cut.toString() + cutMark : bytes;
        await appendFile(pathOf(id), kept, { mode: 0o600 });
        size += bytes.length;
        isLost = false;
        announce();
      };
      // A full disk costs a part of the log, never the build or the server.
      const lose = () => {
        isLost = true;
      };
      return {
        write(text) {
          // Everybody who knows the id of a build can read its log.
          pending += maskAddresses(stripVTControlCharacters(text));
          chain = chain.then(append).catch(lose);
        },
        written: () => chain,
        async end() {
          await chain;
          writing.isEnded = true;
          writings.delete(id);
          announce();
        },
      };
    },

    async read(id) {
      try {
        return await readFile(pathOf(id), 'utf8');
      } catch (error) {
        if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
        return writings.has(id) ? '' : undefined;
      }
    },

    async *follow(id, signal) {
      const writing = writings.get(id);
      const stopped = new Promise<void>(resolve => {
        signal.addEventListener('abort', () => resolve(), { once: true });
      });
      let position = 0;
      while (!signal.aborted) {
        const changed = writing?.changed.promise;
        const isEnded = writing?.isEnded ?? true;
        for await (const piece of piecesOf(pathOf(id), position)) {
          position += piece.length;
          yield piece;
        }
        if (isEnded) return;
        await Promise.race([changed, stopped]);
      }
    },

    remove: id => rm(pathOf(id), { force: true }),

    async retain(isKnown, signal) {
      for await (const name of namesIn(directory)) {
        signal?.throwIfAborted();
        const id = name.slice(0, -suffix.length);
        // A build has its row before it has a log.
        if (!name.endsWith(suffix) || (await isKnown(id))) continue;
        await rm(join(directory, name), { force: true });
      }
    },
  };
}

/** The names in a directory, which may have very many. */
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

async function* piecesOf(path: string, from: number): AsyncGenerator<Buffer> {
  let file: Awaited<ReturnType<typeof open>>;
  try {
    file = await open(path, 'r');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return;
    throw error;
  }
  try {
    for (let position = from; ; ) {
      const buffer = Buffer.allocUnsafe(pieceBytes);
      const { bytesRead } = await file.read(buffer, 0, pieceBytes, position);
      if (bytesRead === 0) return;
      position += bytesRead;
      yield buffer.subarray(0, bytesRead);
    }
  } finally {
    await file.close();
  }
}
