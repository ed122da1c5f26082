import { createHash } from 'node:crypto';
import { Transform, type TransformCallback } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGunzip } from 'node:zlib';
import { Fault } from '../fault.ts';
import type { Digest } from '../oci/digest.ts';

const blockSize = 512;

/** The digest of the tar file inside a gzip file; throws a {@link Fault} when it is no gzip file, no tar file, or unpacks to more than `limit` bytes. */
export interface TarDigester {
  /** Takes the next bytes of the gzip file; resolves when it wants more. */
  write(bytes: Uint8Array): Promise<void>;
  end(): Promise<Digest>;
  abort(): void;
}

/** @param name how messages call the layer */
export function digestTar(name: string, limit: number): TarDigester {
  const hash = createHash('sha256');
  const gunzip = createGunzip();
  let given = 0;
  let size = 0;
  let head = Buffer.alloc(0);
  const sink = new Transform({
    transform(chunk: Buffer, _encoding, done: TransformCallback) {
      size += chunk.length;
      if (size > limit) return done(tooLarge(name, limit));
      if (head.length < blockSize) {
        head = Buffer.concat([head, chunk.subarray(0, blockSize - head.length)]);
        if (head.length === blockSize && !isTarHeader(head)) return done(notTar(name));
      }
      hash.update(chunk);
      done();
    },
  });
  sink.resume();
  const finished = pipeline(gunzip, sink);
  // Whoever writes or ends hears of the failure; until then it must not count as unhandled.
  finished.catch(() => {});
  const failure = (error: unknown): Fault =>
    error instanceof Fault ? error : notGzip(name, error);

  return {
    async write(bytes) {
      if (gunzip.destroyed) return finished.catch(error => Promise.reject(failure(error)));
      given += bytes.length;
      // The caller reuses its buffer, and zlib reads on another thread: give it bytes of its own.
      if (gunzip.write(Buffer.from(bytes))) return;
      const drained = new Promise<void>(resolve => gunzip.once('drain', resolve));
      await Promise.race([drained, finished]).catch(error => Promise.reject(failure(error)));
    },

    async end() {
      gunzip.end();
      await finished.catch(error => Promise.reject(failure(error)));
      // zlib passes over what follows the end of the last member; Go's reader, in docker, does not.
      if (gunzip.bytesWritten < given)
        throw notGzip(name, undefined, ' only: it has bytes after its end');
      if (size < blockSize) throw notTar(name);
      return `sha256:${hash.digest('hex')}` as Digest;
    },

    abort() {
      gunzip.destroy();
    },
  };
}

/** A header's checksum fits, or the archive is empty and begins with zeros. Source: POSIX.1-2017, pax, ustar Interchange Format. */
function isTarHeader(block: Buffer): boolean {
  if (block.every(byte => byte === 0)) return true;
  const stored = Number.parseInt(block.toString('latin1', 148, 156).replace(/[\0 ]+$/, ''), 8);
  let sum = 0;
  for (const [position, byte] of block.entries()) {
    sum += position >= 148 && position < 156 ? 32 : byte;
  }
  return sum === stored;
}

function tooLarge(name: string, limit: number): Fault {
  return new Fault('too-large', `${name} unpacks to more than the ${limit} bytes allowed`, {
    phase: 'layer',
  });
}

function notTar(name: string): Fault {
  return new Fault('bad-request', `${name} is not a tar archive inside its gzip file`, {
    phase: 'layer',
  });
}

function notGzip(name: string, cause: unknown, detail = ''): Fault {
  return new Fault('bad-request', `${name} is not a gzip file${detail}: pack it with 'tar -cz'`, {
    phase: 'layer',
    cause,
  });
}
