import { parentPort } from 'node:worker_threads';
import { Fault } from '../../foundation/fault.ts';
import type { Bill } from './bill.ts';
import type { DocumentName } from './document-form.ts';
import { unpackBill } from './kept-bill.ts';
import { writeCondaLock } from './lock-files/conda-lock-file.ts';
import { writeExplicitLock } from './lock-files/explicit-lock.ts';
import { writePixiLock } from './lock-files/pixi-lock-file.ts';
import { writeCyclonedx } from './materials/cyclonedx.ts';
import { writeSpdx } from './materials/spdx.ts';

/** The documents to write, about a bill as it is kept. */
export interface DocumentOrder {
  readonly kept: Uint8Array;
  readonly names: readonly DocumentName[];
}

/** The documents in the order of their names, or why one cannot be written. */
export type DocumentAnswer =
  | { readonly texts: readonly string[] }
  | { readonly refused: Pick<Fault, 'kind' | 'message'> };

const writers: Readonly<Record<DocumentName, (bill: Bill) => string>> = {
  explicit: writeExplicitLock,
  pixi: writePixiLock,
  'conda-lock': writeCondaLock,
  spdx: writeSpdx,
  cyclonedx: writeCyclonedx,
};

parentPort?.once('message', ({ kept, names }: DocumentOrder) => {
  parentPort?.postMessage(answerTo(kept, names));
});

function answerTo(kept: Uint8Array, names: readonly DocumentName[]): DocumentAnswer {
  try {
    const bill = unpackBill(kept);
    return { texts: names.map(name => writers[name](bill)) };
  } catch (error) {
    if (!(error instanceof Fault)) throw error;
    const { kind, message } = error;
    return { refused: { kind, message } };
  }
}
