import { appendFile, mkdir, open, readFile } from 'node:fs/promises';
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
  begin(id: string): LogWriter;
  /** The whole log so far, undefined when there is none. */
  read(id: string): Promise<string | undefined>;
  /** The log from its beginning, piece by piece, until the build has ended or the signal says so. */
  follow(id: string, signal: AbortSignal): AsyncGenerator<Buffer>;
}

const maxBytes = 10 * 1024 * 1024;
const cutMark = '\n[the log is longer than 10 MiB: the rest is left out]\n';
const pieceBytes = 64 * 1024;

interface Writing {
  written: number;
  isEnded: boolean;
  changed: PromiseWithResolvers<void>;
}

export function createBuildLogs(directory: string): BuildLogs {
  const writings = new Map<string, Writing>();
  // The id is made of hex digits, an underscore and a number, so it is a file name.
  const pathOf = (id: string) => join(directory, `${id}.log`);

  return {
    begin(id) {
      const writing: Writing = { written: 0, isEnded: false, changed: Promise.withResolvers() };
      writings.set(id, writing);
      const announce = () => {
        writing.changed.resolve();
        writing.changed = Promise.withResolvers();
      };
      let size = 0;
      let chain: Promise<unknown> = mkdir(directory, { recursive: true });
      const append = (text: string) => {
        chain = chain.then(async () => {
          await appendFile(pathOf(id), text);
          writing.written += Buffer.byteLength(text);
          announce();
        });
        chain.catch(() => {});
      };
      return {
        write(text) {
          if (size > maxBytes) return;
          const plain = stripVTControlCharacters(text);
          size += Buffer.byteLength(plain);
          append(size > maxBytes ? cutMark : plain);
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
  };
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
