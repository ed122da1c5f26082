import { Fault } from '../fault.ts';
import { parseReference } from '../oci/reference.ts';
import { OciSyntaxError } from '../oci/syntax-error.ts';
import { accessTo } from '../upstream/authorizer.ts';
import type { CredentialSource } from '../upstream/credentials.ts';
import type { RegistryClient } from '../upstream/registry-client.ts';

/**
 * Makes sure that whoever asks for a build may pull what it begins with: a builder that has an image
 * already does not ask its registry again. Throws a {@link Fault} (400) that names the image.
 */
export async function checkBaseImages(
  references: readonly string[],
  registry: RegistryClient,
  credentials: CredentialSource,
): Promise<void> {
  await Promise.all(references.map(reference => checkOne(reference, registry, credentials)));
}

async function checkOne(
  text: string,
  registry: RegistryClient,
  credentials: CredentialSource,
): Promise<void> {
  try {
    const image = parseReference(text);
    const access = await accessTo(image, credentials);
    await registry.headManifest(access, image.digest ?? image.tag ?? 'latest');
  } catch (error) {
    const isTheirs =
      error instanceof OciSyntaxError || (error instanceof Fault && error.status < 500);
    if (!isTheirs) throw error;
    throw new Fault('bad-request', `The base image ${text} cannot be had: ${error.message}`, {
      phase: 'build',
      cause: error,
    });
  }
}
