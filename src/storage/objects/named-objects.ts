import type { Bucket } from './bucket/bucket.ts';

/** Small files in a folder of a bucket, by their names. */
export interface NamedObjects {
  put(name: string, bytes: Buffer): Promise<void>;
  /** Returns undefined for a name that is not there. */
  read(name: string): Promise<Buffer | undefined>;
  remove(name: string): Promise<void>;
  /** Yields all names in their order. */
  names(): AsyncIterable<string>;
  close(): void;
}

export function namedObjects(bucket: Bucket, folder: string): NamedObjects {
  const keyOf = (name: string) => `${folder}/${name}`;
  return {
    put: (name, bytes) => bucket.put(keyOf(name), bytes),
    read: name => bucket.read(keyOf(name)),
    remove: name => bucket.remove(keyOf(name)),
    async *names() {
      for await (const { key } of bucket.list(`${folder}/`)) yield key.slice(folder.length + 1);
    },
    close: bucket.close,
  };
}
