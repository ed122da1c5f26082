import { createHash } from 'node:crypto';
import { drain } from '../content/byte-source.ts';
import type { ContentStore } from '../content/content-store.ts';
import { type Digest, splitDigest } from '../oci/digest.ts';
import type { HostedContent, HostedStore } from '../store/hosted.ts';

export interface VerifyReport {
  /** Content read, and its bytes. */
  readonly checked: number;
  readonly checkedBytes: number;
  /** Content whose bytes are not those of its digest. */
  readonly damaged: readonly Digest[];
  /** What hosted repositories have but the content store lacks, or has with another size. */
  readonly missing: readonly HostedContent[];
}

/**
 * Reads everything again and compares it with its digest. With `removeDamaged` what is damaged is
 * removed, so that the next push or pull brings it anew; otherwise nothing changes.
 */
export async function verify(
  content: ContentStore,
  hosted: HostedStore,
  removeDamaged = false,
): Promise<VerifyReport> {
  const damaged: Digest[] = [];
  let checked = 0;
  let checkedBytes = 0;
  for await (const { digest, size } of content.list()) {
    checked += 1;
    checkedBytes += size;
    if (await isWhole(content, digest, size)) continue;
    damaged.push(digest);
    if (removeDamaged) content.removeUnused(digest, Number.POSITIVE_INFINITY);
  }
  const missing: HostedContent[] = [];
  for (const entry of hosted.all()) {
    if ((await content.size(entry.digest)) !== entry.size) missing.push(entry);
  }
  return { checked, checkedBytes, damaged, missing };
}

async function isWhole(content: ContentStore, digest: Digest, size: number): Promise<boolean> {
  const { algorithm, hex } = splitDigest(digest);
  const hash = createHash(algorithm);
  try {
    await drain(content.open(digest, 0, size - 1), bytes => hash.update(bytes));
  } catch (error) {
    // A sweep may have taken it since it was listed; a disk that cannot be read is damage.
    return (error as NodeJS.ErrnoException).code === 'ENOENT';
  }
  return hash.digest('hex') === hex;
}
