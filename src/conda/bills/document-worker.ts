import { serveTask } from '../threads/one-task.ts';
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

const writers: Readonly<Record<DocumentName, (bill: Bill) => string>> = {
  explicit: writeExplicitLock,
  pixi: writePixiLock,
  'conda-lock': writeCondaLock,
  spdx: writeSpdx,
  cyclonedx: writeCyclonedx,
};

// Returns the documents in the order of their names.
serveTask(({ kept, names }: DocumentOrder): readonly string[] => {
  const bill = unpackBill(kept);
  return names.map(name => writers[name](bill));
});
