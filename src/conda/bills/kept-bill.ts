import { promisify } from 'node:util';
import { deflateRaw, inflateRawSync } from 'node:zlib';
import type { Bill } from './bill.ts';

const deflate = promisify(deflateRaw);
const maxBytes = 64 * 1024 * 1024;

/** Returns a bill in the form that is kept with its build: about 250 bytes for each package. */
export async function packBill(bill: Bill): Promise<Buffer> {
  return deflate(JSON.stringify(bill));
}

/** Returns the bill that was kept. Blocks its thread. */
export function unpackBill(kept: Uint8Array): Bill {
  return JSON.parse(inflateRawSync(kept, { maxOutputLength: maxBytes }).toString('utf8')) as Bill;
}
