import { Fault } from '../../foundation/fault.ts';
import { formatReference, parseReference } from '../../oci/naming.ts';
import type { BaseImage } from '../recipe/dockerfile/base-images.ts';

// The images in which Docker publishes the frontend that reads Dockerfiles.
const knownFrontend = /^docker\.io\/docker\/dockerfile(?:-upstream)?[:@]/;

/**
 * Replacement for Docker's frontend images, which `# syntax=` lines name: `declared` for none, `builder` for the
 * builder's own frontend, or an image. An image without tag and digest gets those of the line.
 */
export type FrontendSetting = 'declared' | 'builder' | (string & {});

/** The frontend that reads a Dockerfile, and all images that are pulled with it. */
export interface FrontendChoice {
  /** `builder` or an image; undefined for the frontend that the Dockerfile specifies. */
  readonly frontend: string | undefined;
  readonly bases: readonly BaseImage[];
}

/**
 * Applies the setting to the images of a Dockerfile. Throws a `Fault` (400) for a frontend that is not Docker's: it
 * would run in the builder itself, and could pull images that nobody has checked.
 */
export function chooseFrontend(
  bases: readonly BaseImage[],
  setting: FrontendSetting,
): FrontendChoice {
  const declared = bases.find(({ use }) => use === 'syntax');
  if (!declared) return { frontend: undefined, bases };
  const { reference, line } = declared;
  if (!knownFrontend.test(reference)) {
    throw new Fault(
      'bad-request',
      `The Dockerfile, line ${line}: the syntax ${reference} is not allowed on this server, only docker/dockerfile: remove the line, or name docker/dockerfile`,
      { phase: 'request' },
    );
  }
  if (setting === 'declared') return { frontend: undefined, bases };
  const others = bases.filter(base => base !== declared);
  if (setting === 'builder') return { frontend: 'builder', bases: others };
  const image = formatReference(
    isVersioned(setting)
      ? parseReference(setting)
      : { ...parseReference(reference), ...placeOf(setting) },
  );
  return { frontend: image, bases: [{ ...declared, reference: image }, ...others] };
}

function isVersioned(name: string): boolean {
  return /[:@]/.test(name.slice(name.lastIndexOf('/') + 1));
}

function placeOf(name: string) {
  const { registry, repository } = parseReference(name);
  return { registry, repository };
}
