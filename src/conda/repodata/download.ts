import { open } from 'node:fs/promises';
import { drain } from '../../storage/content/byte-source.ts';
import type { DiskSpace } from '../../storage/directory/disk-space.ts';
import type { Answer } from '../../upstream/exchange/answer.ts';
import { RepodataError } from './shards/json-records.ts';

/** Writes the body of an answer into a new file. Throws a {@link RepodataError} when it has more than `limit` bytes. */
export async function download(
  { body, contentLength = 0 }: Answer,
  path: string,
  limit: number,
  space: DiskSpace,
  onReceived: (bytes: number) => void,
): Promise<void> {
  try {
    const promise = space.promise(Math.min(contentLength, limit));
    const file = await open(path, 'wx', 0o600);
    try {
      let size = 0;
      await drain(body, async bytes => {
        size += bytes.length;
        if (size > limit) throw new RepodataError(`has more than ${limit} bytes`);
        promise.spend(bytes.length);
        await writeAll(file, bytes);
        onReceived(size);
      });
    } finally {
      promise.end();
      await file.close();
    }
  } finally {
    body.destroy();
  }
}

async function writeAll(
  file: { write(bytes: Uint8Array): Promise<{ bytesWritten: number }> },
  bytes: Uint8Array,
): Promise<void> {
  for (let done = 0; done < bytes.length; ) {
    const { bytesWritten } = await file.write(bytes.subarray(done));
    done += bytesWritten;
  }
}
