import type { Builds } from '../builds/index.ts';
import { type BuildPlan, recipeIn } from '../builds/plan/build-plan.ts';
import { boundedCache } from '../foundation/bounded-cache.ts';
import { Fault } from '../foundation/fault.ts';
import type { RightWatch } from '../images/index.ts';
import { parseReference, type Reference } from '../oci/naming.ts';
import type { Identities, SealedGrant } from '../platform/index.ts';
import type { ContainerRequest, FindServed } from '../request/index.ts';
import { type Access, accessTo } from '../upstream/index.ts';

/** The access with which the image of a container request is served, and how long it is valid. */
export interface PullRight {
  readonly access: Access;
  /** In ms of `performance.now`. */
  readonly until: number;
}

/**
 * Checks the right to a container request: that its caller is still admitted, which credentials it has now, and that
 * registries show it the image with them. For a built image, also checks the images it is made of. Throws a `Fault` if
 * the right has ended.
 */
export type CheckRight = (request: ContainerRequest) => Promise<PullRight>;

export interface CheckRightDeps {
  readonly identities: Pick<Identities, 'credentialsOf' | 'require'>;
  readonly accessToBuilt: (image: Reference, grant: SealedGrant | undefined) => Promise<Access>;
  readonly builds: Pick<Builds, 'get'>;
  readonly watch: Pick<RightWatch, 'check'>;
  readonly findServed: FindServed;
  readonly ownHost: string;
  /** How long a response is used (ms). */
  readonly lifeMs: number;
  /** How long the last response of a platform counts while the platform does not answer (ms). */
  readonly graceMs: number;
}

const keptChecks = 2000;
/** Builds that begin with the served name of a build, one after another. */
const mostServed = 8;

export function createCheckRight(deps: CheckRightDeps): CheckRight {
  const { identities, accessToBuilt, builds, watch, findServed, ownHost, lifeMs, graceMs } = deps;
  const latest = boundedCache<string, RequiredImages & { readonly at: number }>(keptChecks);

  /** Returns the images that a built image is made of, and the image itself. */
  const partsOf = async (
    request: ContainerRequest,
    access: Access,
    depth: number,
  ): Promise<readonly Shown[]> => {
    const { plan, digest } = await builds.get(request.buildId ?? '');
    const recipe = recipeIn(JSON.parse(plan) as BuildPlan);
    const credentials = identities.credentialsOf(request.caller.grant);
    const partsOfBase = async (image: Reference): Promise<readonly Shown[]> => {
      // A served name gives the rights of its own container request, as long as that lives.
      const served = await findServed(image);
      if (served) return (await requiredImages(served, depth + 1)).parts;
      const reference = image.digest ?? image.tag ?? 'latest';
      return [{ access: await accessTo(image, credentials), reference }];
    };
    const bases = (recipe?.baseImages ?? []).map(parseReference);
    const shown = (await Promise.all(bases.map(partsOfBase))).flat();
    const made = request.fixed?.base.digest ?? digest;
    // This server has the right to its own images, but they may have been deleted.
    const isShown = made !== null && (!access.isService || access.registry === ownHost);
    return [...shown, ...(isShown ? [{ access, reference: made }] : [])];
  };

  /** Returns the images to check now, with the current credentials of the caller. */
  const requiredImages = async (request: ContainerRequest, depth = 0): Promise<RequiredImages> => {
    if (depth > mostServed) throw tooDeep();
    const { image, isBuilt, fixed, caller } = request;
    const { grant } = caller;
    if (grant) await identities.require(grant);
    const credentials = identities.credentialsOf(grant);
    const included = await Promise.all(
      (request.includes ?? []).map(async one => ({
        access: await accessTo(one, credentials),
        reference: one.digest ?? '',
      })),
    );
    if (isBuilt) {
      const access = await accessToBuilt(image, grant);
      return { access, parts: [...(await partsOf(request, access, depth)), ...included] };
    }
    const access = await accessTo(image, credentials);
    if (!fixed) return { access, parts: included };
    // Who deletes a hosted index deletes its images, also if they were requested for one platform.
    const root = access.registry === ownHost ? fixed.root : undefined;
    const references = root === undefined ? [fixed.base.digest] : [fixed.base.digest, root];
    const own = references.map(reference => ({ access, reference }));
    return { access, parts: [...own, ...included] };
  };

  /** Like `requiredImages`, but while a platform does not answer, its last response counts for a time. */
  const latestRequiredImages = async (request: ContainerRequest): Promise<RequiredImages> => {
    const at = performance.now();
    const last = latest.get(request.token);
    try {
      const required = await requiredImages(request);
      latest.set(request.token, { ...required, at });
      return required;
    } catch (error) {
      const isUnavailable =
        error instanceof Fault && (error.status >= 500 || error.kind === 'too-many-requests');
      if (last && isUnavailable && at - last.at < graceMs) return last;
      throw error;
    }
  };

  return async request => {
    const began = performance.now();
    const { access, parts } = await latestRequiredImages(request);
    const isPublic = request.isPublic ?? false;
    const untils = await Promise.all(
      parts.map(part => watch.check(part.access, part.reference, isPublic)),
    );
    return { access, until: Math.min(began + lifeMs, ...untils) };
  };
}

function tooDeep(): Fault {
  return new Fault(
    'bad-request',
    `This image is the last of more than ${mostServed} builds that each begin with the served name of another: begin with an image of a repository`,
    { phase: 'credentials' },
  );
}

/** The access, and the images that registries must show with it. */
interface RequiredImages {
  readonly access: Access;
  readonly parts: readonly Shown[];
}

interface Shown {
  readonly access: Access;
  /** Tag or digest. */
  readonly reference: string;
}
