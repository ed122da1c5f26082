import type { BaseResolver, Documents } from '../../images/index.ts';
import { parseReference, type Reference } from '../../oci/naming.ts';
import type { CredentialSource } from '../../upstream/auth/index.ts';
import { accessTo } from '../../upstream/index.ts';
import { orasScheme } from '../asked-image.ts';
import type { InspectedImage, OpenServed } from './inspect-served.ts';

/** An image that the caller may pull. */
export interface OpenedImage extends InspectedImage {
  readonly name: Reference;
}

/** Opens an image by its name, with the rights of the caller. Throws a `Fault` for one that the caller may not pull. */
export type OpenInspected = (image: string, credentials: CredentialSource) => Promise<OpenedImage>;

export function createOpenInspected({
  bases,
  documents,
  openServed,
}: {
  readonly bases: BaseResolver;
  readonly documents: Documents;
  readonly openServed: OpenServed;
}): OpenInspected {
  return async (text, credentials) => {
    const name = parseReference(text.replace(orasScheme, ''));
    const served = await openServed(name);
    if (served) return { ...served, name };
    const access = await accessTo(name, credentials);
    const root = await bases.resolve(access, name);
    return { name, access, root, documents };
  };
}
