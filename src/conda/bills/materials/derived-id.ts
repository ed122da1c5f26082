import { createHash } from 'node:crypto';
import type { Bill } from '../bill.ts';

/**
 * Returns the unique identifier of a document: a version 8 UUID derived from the image and its packages, and not from the
 * request for them.
 * Source: RFC 9562, section 5.8.
 */
export function documentUuid(form: string, { image, platforms }: Bill): string {
  const packages = platforms.map(({ subdir, packages }) => [
    subdir,
    packages.map(({ url, md5, sha256, depends, license, summary, home }) => [
      ...[url, md5, sha256, depends],
      ...[license, summary, home],
    ]),
  ]);
  const stated = JSON.stringify([form, image, packages]);
  const hash = createHash('sha256').update(stated).digest();
  hash.writeUInt8((hash.readUInt8(6) & 0x0f) | 0x80, 6);
  hash.writeUInt8((hash.readUInt8(8) & 0x3f) | 0x80, 8);
  const hex = hash.toString('hex');
  const at = [0, 8, 12, 16, 20, 32];
  return at
    .slice(1)
    .map((end, part) => hex.slice(at[part], end))
    .join('-');
}
