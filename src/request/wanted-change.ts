import { givenFields } from '../images/augment/container-config.ts';
import type { ImageChange, InjectedLayer } from '../images/augment/image-change.ts';
import type { Submission } from './submission.ts';

/** Returns the changes that a submission requests, with its verified layers. */
export function changeOf(
  { containerConfig = {} }: Submission,
  layers: readonly InjectedLayer[] | undefined,
): ImageChange {
  return {
    ...givenFields(containerConfig),
    ...(layers === undefined || layers.length === 0 ? {} : { layers }),
  };
}
