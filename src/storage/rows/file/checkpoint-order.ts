/** `copy` while others write; `finish` while nobody does, so that the log can begin again. */
export type CheckpointOrder = 'copy' | 'finish' | 'close';

export interface Checkpointed {
  /** Pages in the log. */
  readonly pages: number;
  /** All of them are in the database file, on the disk. */
  readonly isWhole: boolean;
  readonly failure?: string;
}
