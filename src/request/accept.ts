import type { ImageChange } from '../augment/image-change.ts';
import type { BuildTicket } from '../build/builds.ts';
import { Fault } from '../fault.ts';
import { inField } from '../field.ts';
import type { BaseResolver } from '../images/base-image.ts';
import type { ImageMaker } from '../images/image-maker.ts';
import { manifestType } from '../oci/manifest.ts';
import { type Platform, parsePlatform } from '../oci/platform.ts';
import { formatReference, parseReference, type Reference } from '../oci/reference.ts';
import { type Access, accessTo } from '../upstream/authorizer.ts';
import type { CredentialSource } from '../upstream/credentials.ts';
import type { BuildIntake } from './built-image.ts';
import type { Caller, ContainerRequest } from './container-request.ts';
import type { ContainerToken } from './container-token.ts';
import type { LayerIntake } from './layers.ts';
import { checkRules } from './rules.ts';
import type { ApiVersion, Submission } from './submission.ts';
import type { TokenRegistry } from './token-registry.ts';

export interface AcceptDeps {
  readonly bases: BaseResolver;
  readonly makeImage: ImageMaker;
  readonly layers: LayerIntake;
  readonly tokens: TokenRegistry;
  readonly build: BuildIntake;
  readonly accessToBuilt: (image: Reference) => Promise<Access>;
  readonly credentials: CredentialSource;
  /** `host/prefix`: what every served name begins with. */
  readonly servedBase: string;
  /** Beginnings of layer URLs that mark a mounted file system. */
  readonly mountedLayers: readonly string[];
}

export interface Accepted {
  readonly request: ContainerRequest;
  /** What the asker should know although the request is good. */
  readonly warnings: readonly string[];
  /** How its build stands, for an image that is built. */
  readonly ticket?: BuildTicket;
}

// The classic image store of docker stops here: "max depth exceeded".
const dockerLayerLimit = 125;

/** Turns a submission into a container request that can be pulled, or throws a {@link Fault}. */
export type Accept = (
  submission: Submission,
  version: ApiVersion,
  caller: Caller,
  /** Called before a new build begins; what it throws prevents it. */
  onBuild: () => void,
) => Promise<Accepted>;

export function createAccept(deps: AcceptDeps): Accept {
  /** The container request of an image that is there. */
  const serve = async (
    { submission, caller, layers }: Intake,
    image: Reference,
    access: Access,
    about: Pick<ContainerRequest, 'buildId' | 'isBuilt'>,
  ): Promise<Accepted> => {
    const platform = about.isBuilt ? undefined : platformOf(submission);
    const change = changeOf(submission, layers);
    const base = await asBadRequest(async () => {
      const root = await deps.bases.resolve(access, image);
      return platform ? deps.bases.select(access, image, root, platform) : root;
    });
    const made = await deps.makeImage(access, base, change);
    const served = { digest: made.root.digest, mediaType: manifestType(made.root) };
    const request = await deps.tokens.issue(token => ({
      ...about,
      ...commonOf(submission, caller, deps.mountedLayers),
      image,
      fixed: { base: { digest: base.digest, mediaType: manifestType(base) }, served },
      change,
      targetImage: targetName(deps.servedBase, token, image, served.digest),
    }));
    return { request, warnings: warningsOf(image, change, made.generated.size, made.maxLayers) };
  };

  /** The container request of an image that is built, now or before. */
  const build = async (intake: Intake, onBuild: () => void): Promise<Accepted> => {
    const { submission, caller, layers } = intake;
    const { plan, ticket } = await deps.build(submission, onBuild);
    const image = parseReference(plan.target);
    const about = { isBuilt: true, buildId: ticket.id };
    if (ticket.isCached && ticket.succeeded) {
      const access = await deps.accessToBuilt(image);
      return { ...(await serve(intake, image, access, about)), ticket };
    }
    const request = await deps.tokens.issue(token => ({
      ...about,
      ...commonOf(submission, caller, deps.mountedLayers),
      image,
      fixed: undefined,
      change: changeOf(submission, layers),
      targetImage: targetName(deps.servedBase, token, image, ''),
    }));
    return { request, warnings: [], ticket };
  };

  return async (submission, version, caller, onBuild) => {
    checkRules(submission, version);
    const { containerImage } = submission;
    const image =
      containerImage === undefined
        ? undefined
        : inField('containerImage', () => parseReference(containerImage));
    const layers = await deps.layers.take(submission.containerConfig?.layers ?? []);
    const intake = { submission, caller, layers };
    if (!image) return build(intake, onBuild);
    return serve(intake, image, await accessTo(image, deps.credentials), {});
  };
}

interface Intake {
  readonly submission: Submission;
  readonly caller: Caller;
  readonly layers: ImageChange['layers'];
}

function platformOf({ containerPlatform }: Submission): Platform | undefined {
  return containerPlatform === undefined
    ? undefined
    : inField('containerPlatform', () => parsePlatform(containerPlatform));
}

function commonOf(submission: Submission, caller: Caller, mountedLayers: readonly string[]) {
  const { containerPlatform, fingerprint, timestamp, containerConfig } = submission;
  return {
    caller,
    platform: containerPlatform,
    fingerprint,
    timestamp,
    isMounted: (containerConfig?.layers ?? []).some(({ location }) =>
      mountedLayers.some(start => location.startsWith(start)),
    ),
  };
}

function changeOf(
  { containerConfig = {} }: Submission,
  layers: ImageChange['layers'],
): ImageChange {
  const { entrypoint, cmd, env, workingDir } = containerConfig;
  return {
    ...(entrypoint === undefined ? {} : { entrypoint }),
    ...(cmd === undefined ? {} : { cmd }),
    ...(workingDir === undefined ? {} : { workingDir }),
    ...(env === undefined || env.length === 0 ? {} : { env }),
    ...(layers === undefined || layers.length === 0 ? {} : { layers }),
  };
}

/** A name by tag keeps the tag; one by digest carries the digest of what is served. */
function targetName(base: string, token: ContainerToken, image: Reference, served: string): string {
  const suffix = image.digest === undefined ? `:${image.tag ?? 'latest'}` : `@${served}`;
  return `${base}/${token}/${image.repository}${suffix}`;
}

function warningsOf(
  image: Reference,
  change: ImageChange,
  generated: number,
  maxLayers: number,
): string[] {
  const warnings: string[] = [];
  if (maxLayers > dockerLayerLimit) {
    warnings.push(
      `The image has ${maxLayers} layers with those added: Docker's classic image store takes at most ${dockerLayerLimit}; podman and Docker's containerd store take it`,
    );
  }
  if (generated === 0 && Object.keys(change).length > 0) {
    warnings.push(
      `${formatReference(image)} is no container image but an artifact: it is served as it is, without the containerConfig`,
    );
  }
  return warnings;
}

/** To who makes a request, an image that does not exist is a mistake in the request. */
async function asBadRequest<T>(work: () => Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof Fault && error.kind === 'manifest-unknown') {
      throw new Fault('bad-request', `${error.message}: check 'containerImage'`, {
        phase: 'upstream',
        cause: error,
      });
    }
    throw error;
  }
}
