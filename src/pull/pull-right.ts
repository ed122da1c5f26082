import type { Builds } from '../builds/builds.ts';
import { type BuildPlan, recipeIn } from '../builds/plan/build-plan.ts';
import { boundedCache } from '../foundation/bounded-cache.ts';
import { Fault } from '../foundation/fault.ts';
import type { RightWatch } from '../images/right-watch.ts';
import { parseReference, type Reference } from '../oci/reference.ts';
import type { Identities, SealedGrant } from '../platform/identities.ts';
import type { ContainerRequest } from '../request/container-request.ts';
import { type Access, accessTo } from '../upstream/access.ts';

/** The access with which the image of a container request is served, and how long it is valid. */
export interface Standing {
  readonly access: Access;
  /** In ms of `performance.now`. */
  readonly until: number;
}

/**
 * Checks the right to a container request: that its caller is still admitted, which credentials it has now, and that
 * registries show it the image with them. For a built image, also checks the images it is made of. Throws a `Fault` if
 * the right has ended.
 */
export type LookAtRight = (request: ContainerRequest) => Promise<Standing>;

export interface LookAtRightDeps {
  readonly identities: Pick<Identities, 'credentialsOf' | 'require'>;
  readonly accessToBuilt: (image: Reference, grant: SealedGrant | undefined) => Promise<Access>;
  readonly builds: Pick<Builds, 'get'>;
  readonly watch: Pick<RightWatch, 'look'>;
  /** How long an answer is used (ms). */
  readonly lifeMs: number;
  /** How long the last answer of a platform counts while the platform does not answer (ms). */
  readonly graceMs: number;
}

const keptQuestions = 2000;

export function createLookAtRight(deps: LookAtRightDeps): LookAtRight {
  const { identities, accessToBuilt, builds, watch, lifeMs, graceMs } = deps;
  const latest = boundedCache<string, Question & { readonly at: number }>(keptQuestions);

  /** Returns the images that a built image is made of, and the image itself. */
  const partsOf = async (request: ContainerRequest, access: Access): Promise<Shown[]> => {
    const { plan, digest } = await builds.get(request.buildId ?? '');
    const recipe = recipeIn(JSON.parse(plan) as BuildPlan);
    const credentials = identities.credentialsOf(request.caller.grant);
    const bases = (recipe?.baseImages ?? []).map(parseReference);
    const shown = bases.map(async image => ({
      access: await accessTo(image, credentials),
      reference: image.digest ?? image.tag ?? 'latest',
    }));
    const made = request.fixed?.base.digest ?? digest;
    const isShown = made !== null && !access.isService;
    return [...(await Promise.all(shown)), ...(isShown ? [{ access, reference: made }] : [])];
  };

  /** Returns the images to check now, with the current credentials of the caller. */
  const questionOf = async (request: ContainerRequest): Promise<Question> => {
    const { image, isBuilt, fixed, caller } = request;
    const { grant } = caller;
    if (grant) await identities.require(grant);
    if (isBuilt) {
      const access = await accessToBuilt(image, grant);
      return { access, parts: await partsOf(request, access) };
    }
    const access = await accessTo(image, identities.credentialsOf(grant));
    return { access, parts: fixed ? [{ access, reference: fixed.base.digest }] : [] };
  };

  /** Like `questionOf`, but while a platform does not answer, its last answer counts for a time. */
  const latestQuestionOf = async (request: ContainerRequest): Promise<Question> => {
    const at = performance.now();
    const last = latest.get(request.token);
    try {
      const question = await questionOf(request);
      latest.set(request.token, { ...question, at });
      return question;
    } catch (error) {
      const isUnavailable =
        error instanceof Fault && (error.status >= 500 || error.kind === 'too-many-requests');
      if (last && isUnavailable && at - last.at < graceMs) return last;
      throw error;
    }
  };

  return async request => {
    const began = performance.now();
    const { access, parts } = await latestQuestionOf(request);
    const isPublic = request.isPublic ?? false;
    const untils = await Promise.all(
      parts.map(part => watch.look(part.access, part.reference, isPublic)),
    );
    return { access, until: Math.min(began + lifeMs, ...untils) };
  };
}

/** The access, and the images that registries must show with it. */
interface Question {
  readonly access: Access;
  readonly parts: readonly Shown[];
}

interface Shown {
  readonly access: Access;
  /** Tag or digest. */
  readonly reference: string;
}
