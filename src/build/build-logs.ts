import { readdirSync, rmSync } from 'node:fs';
import { appendFile, mkdir, open, readFile, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { stripVTControlCharacters } from 'node:util';

/** The log of one build while it is written. */
export interface LogWriter {
  /** Appends text; what is beyond the bound is left out, and that is said. */
  write(text: string): void;
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
  /** Removes the logs of all builds but those that are known. */
  retain(isKnown: (id: string) => boolean): void;
}

const maxBytes = 10 * 1024 * 1024;
const cutMark = '\n[the log is longer than 10 MiB: the rest is left out]\n';
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
      let size = 0;
      let pending = '';
      let chain = (async () => {
        await mkdir(directory, { recursive: true });
        size = await sizeOf(pathOf(id));
      })();
      /** All that has come until now: much of it when the disk is slow. */
      const append = async () => {
        const bytes = Buffer.from(pending);
        pending = '';
        const room = maxBytes - size;
        if (bytes.length === 0 || room < 0) return;
        size += bytes.length;
        const cut = bytes.subarray(0, room);
        await appendFile(pathOf(id), size > maxBytes ? cut.toString() + cutMark : bytes);
        announce();
      };
      return {
        write(text) {
          pending += stripVTControlCharacters(text);
          chain = chain.then(append);
          chain.catch(() => {});
        },
        async end() {
          await chain.catch(() => {});
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

    retain(isKnown) {
      for (const name of namesIn(directory)) {
        const id = name.slice(0, -suffix.length);
        // At once after the look: a build that begins now may have the id of one that is forgotten.
        if (name.endsWith(suffix) && !isKnown(id)) rmSync(join(directory, name), { force: true });
      }
    },
  };
}

function namesIn(directory: string): string[] {
  try {
    return readdirSync(directory);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return [];
    throw error;
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
