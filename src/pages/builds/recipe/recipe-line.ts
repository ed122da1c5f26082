import type { ShownStep } from '../shown-step.ts';

/** A line of a recipe, and what is known about it. */
export interface RecipeLine {
  readonly text: string;
  readonly isFailed: boolean;
  /** The step that this line begins. */
  readonly step: ShownStep | undefined;
  /** Bytes of its layer in the first platform. */
  readonly layerBytes: number | undefined;
}
