import { createCipheriv } from 'node:crypto';
import { sumOf } from '../sif/tar-file.ts';
import { mediaTypes, streamedContent } from './content.ts';
import { type Family, type Image, imageOf } from './image.ts';

const mebibyte = 1024 * 1024;

/** One layer that does not compress; the name is the size of the file in it. */
export const big: Family = {
  '64m': async () => bigImage(64 * mebibyte),
  '256m': async () => bigImage(256 * mebibyte),
  '1g': async () => bigImage(1024 * mebibyte),
};

/** An image whose only layer is a tar with one file of so many bytes of noise. */
export function bigImage(fileSize: number): Image {
  const content = streamedContent(mediaTypes.ociLayer, () => tarOfNoise(fileSize));
  return imageOf({ layers: [{ content, diffId: content.digest }] });
}

function* tarOfNoise(fileSize: number): Generator<Uint8Array> {
  yield tarHeader('noise', fileSize);
  yield* noise(fileSize);
  yield Buffer.alloc((512 - (fileSize % 512)) % 512);
  yield Buffer.alloc(1024);
}

/** The same bytes each time: zeros under a cipher with a fixed key, a mebibyte of them again and again. */
function* noise(size: number): Generator<Uint8Array> {
  const cipher = createCipheriv('aes-128-ctr', Buffer.alloc(16, 7), Buffer.alloc(16));
  const block = cipher.update(Buffer.alloc(mebibyte));
  for (let left = size; left > 0; left -= block.length) {
    yield left < block.length ? block.subarray(0, left) : block;
  }
}

/** Source: POSIX ustar. tar-stream wants its whole input at once or as a stream. */
function tarHeader(name: string, size: number): Buffer {
  const header = Buffer.alloc(512);
  const octal = (value: number, length: number) =>
    `${value.toString(8).padStart(length - 1, '0')}\0`;
  header.write(name, 0);
  header.write(octal(0o644, 8), 100);
  header.write(octal(0, 8), 108);
  header.write(octal(0, 8), 116);
  header.write(octal(size, 12), 124);
  header.write(octal(0, 12), 136);
  header.write(' '.repeat(8), 148);
  header.write('0', 156);
  header.write('ustar\x0000', 257);
  const sum = sumOf(header);
  header.write(`${sum.toString(8).padStart(6, '0')}\0 `, 148);
  return header;
}
