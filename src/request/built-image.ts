import { checkBaseImages } from '../build/base-check.ts';
import type { BuildPlan } from '../build/build-plan.ts';
import type { Builds, BuildTicket } from '../build/builds.ts';
import { type BuildPlaces, planBuild } from '../build/plan.ts';
import { Fault } from '../fault.ts';
import { parseReference } from '../oci/reference.ts';
import { type Access, accessTo } from '../upstream/authorizer.ts';
import type { CredentialSource } from '../upstream/credentials.ts';
import type { RegistryClient } from '../upstream/registry-client.ts';
import type { Submission } from './submission.ts';

/** An image that was asked for by what it is made of. */
export interface BuiltImage {
  readonly plan: BuildPlan;
  readonly ticket: BuildTicket;
}

/** Finds the image of a submission that says what to build, or begins its build. Throws {@link Fault}. */
export type BuildIntake = (submission: Submission, onBegin: () => void) => Promise<BuiltImage>;

export interface BuildIntakeDeps {
  readonly builds: Builds;
  readonly places: BuildPlaces;
  readonly registry: RegistryClient;
  readonly credentials: CredentialSource;
  readonly ownHost: string;
}

export function createBuildIntake(deps: BuildIntakeDeps): BuildIntake {
  const { builds, places, registry, credentials, ownHost } = deps;

  /** A builder gets a token for hosted repositories, so who asks must not choose them freely. */
  const requireOwnRight = async (field: string, name: string | undefined): Promise<void> => {
    if (name === undefined) return;
    const { registry: host } = parseReference(name);
    if (host !== ownHost || (await credentials(host))) return;
    throw new Fault(
      'denied',
      `'${field}': builds cannot be pushed to ${name} without an account: leave it out, or have the operator list credentials for ${host}`,
      { phase: 'credentials' },
    );
  };

  return async (submission, onBegin) => {
    const plan = planBuild(submission, places);
    await requireOwnRight('buildRepository', submission.buildRepository);
    await requireOwnRight('cacheRepository', submission.cacheRepository);
    // Also for an image that is there: it holds what the base images hold.
    await checkBaseImages(plan.baseImages, registry, credentials);
    return { plan, ticket: await builds.request(plan, onBegin) };
  };
}

/**
 * The access to an image that was built here: in the service's own right where it is hosted, as
 * who asked for the build has shown that it may have it.
 */
export async function accessToBuilt(
  image: Pick<Access, 'registry' | 'repository'>,
  ownHost: string,
  credentials: CredentialSource,
): Promise<Access> {
  const access = await accessTo(image, credentials);
  return image.registry === ownHost ? { ...access, isService: true } : access;
}
