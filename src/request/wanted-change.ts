import { changesConfig, givenFields } from '../images/augment/container-config.ts';
import {
  changesIn,
  type ImageChange,
  type InjectedLayer,
  layersIn,
} from '../images/augment/index.ts';
import { type Document, parseManifest } from '../oci/index.ts';
import type { Submission } from './container-request.ts';

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

/** Returns why a change affects no image of a base, in words that follow the name of the base. */
export function whyUnchanged(base: Document, change: ImageChange): string {
  const architectures = layersIn(change).map(({ architecture }) => architecture);
  const isForOthers = architectures.length > 0 && !architectures.includes(undefined);
  if (isForOthers && !changesIn(change).some(changesConfig)) {
    return `has no image of the architecture of the layers (${[...new Set(architectures)].join(', ')})`;
  }
  return parseManifest(base).kind === 'index'
    ? 'is an index without an image to change'
    : 'is an artifact, not a container image';
}
