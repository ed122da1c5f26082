import { formatReference, parseReference } from '../../oci/naming.ts';
import { contextName } from '../recipe/dockerfile/context-name.ts';
import { refuse, shown } from '../recipe/text/refuse.ts';
import { inField } from './field.ts';

/** Full names of images by the names under which BuildKit looks them up, see {@link contextName}. */
export type NamedContexts = Readonly<Record<string, string>>;

/** In a Dockerfile these names refer to neither images nor stages. */
const reserved = new Set(['scratch', 'context']);

/**
 * Returns the images that replace images and stages of the Dockerfile in a request, checked and normalised. Throws a
 * `Fault` (400) that names the field. Source: Docker's `--build-context NAME=docker-image://IMAGE`.
 */
export function readNamedContexts(submitted: Readonly<Record<string, string>> = {}): NamedContexts {
  const contexts = Object.entries(submitted).map(([name, image]) => {
    const field = `namedContexts.${name.slice(0, 80)}`;
    inField(field, () => parseReference(name));
    const short = contextName(name);
    if (reserved.has(short))
      refuse(
        `'${field}': ${shown(short)} cannot be replaced: name another image or stage of the Dockerfile`,
      );
    return [short, formatReference(inField(field, () => parseReference(image)))] as const;
  });
  const read = new Map(contexts);
  if (read.size < contexts.length) {
    refuse("'namedContexts' has two names for one image or stage: remove one of them");
  }
  return Object.fromEntries([...read].sort(([one], [other]) => (one < other ? -1 : 1)));
}

/** Returns the options for named contexts in the key of a build, by name. */
export function contextOptions(contexts: NamedContexts): Record<string, string> {
  return Object.fromEntries(
    Object.entries(contexts).map(([name, image]) => [`context:${name}`, image]),
  );
}
