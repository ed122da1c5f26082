import { Fault } from '../../foundation/fault.ts';
import { parseReference } from '../../oci/reference.ts';
import { OciSyntaxError } from '../../oci/syntax-error.ts';
import { type Access, accessTo } from '../../upstream/access.ts';
import type { CredentialSource } from '../../upstream/auth/credentials.ts';
import { findManifest } from '../../upstream/content/find-manifest.ts';
import type { RegistryClient } from '../../upstream/registry-client.ts';

/** A base image that its registry has shown to the caller. */
export interface ShownBase {
  readonly access: Access;
  /** Tag or digest. */
  readonly reference: string;
}

/**
 * Checks that the caller may pull the base images: a builder that already has an image does not ask its registry again.
 * Throws a {@link Fault} that names the image: 400, or the status for a registry that does not answer.
 */
export async function checkBaseImages(
  references: readonly string[],
  registry: RegistryClient,
  credentials: CredentialSource,
): Promise<readonly ShownBase[]> {
  return Promise.all(references.map(reference => checkOne(reference, registry, credentials)));
}

async function checkOne(
  text: string,
  registry: RegistryClient,
  credentials: CredentialSource,
): Promise<ShownBase> {
  try {
    const image = parseReference(text);
    const access = await accessTo(image, credentials);
    const reference = image.digest ?? image.tag ?? 'latest';
    await findManifest(registry, access, reference);
    return { access, reference };
  } catch (error) {
    if (!(error instanceof OciSyntaxError || error instanceof Fault)) throw error;
    const message = `The base image ${text} is unavailable: ${error.message}`;
    const isOurs = error instanceof Fault && error.status >= 500;
    if (isOurs) throw error.retold(message);
    throw new Fault('bad-request', message, { phase: 'build', cause: error });
  }
}
