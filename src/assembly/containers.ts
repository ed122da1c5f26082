import { fileURLToPath } from 'node:url';
import { accessInOwnRight } from '../build/build-rights.ts';
import { createBuildService } from '../build/build-service.ts';
import { findBuilders } from '../build/find-builders.ts';
import type { BuildPlaces } from '../build/plan.ts';
import { createBaseResolver } from '../images/base-image.ts';
import { createDocuments } from '../images/documents.ts';
import { createImageMaker } from '../images/image-maker.ts';
import type { SealedGrant } from '../platform/identities.ts';
import { createAccept } from '../request/accept.ts';
import { createBaseFinder } from '../request/asked-image.ts';
import { createBuildIntake } from '../request/built-image.ts';
import { createDryRun } from '../request/dry-run.ts';
import { createInspect } from '../request/inspect.ts';
import { createLayerIntake } from '../request/layers.ts';
import { createTokenRegistry } from '../request/token-registry.ts';
import type { Access } from '../upstream/authorizer.ts';
import { credentialKey } from '../upstream/credentials.ts';
import { fetchUrl } from '../upstream/fetch-url.ts';
import type { AppDeps } from './app-deps.ts';
import type { People } from './people.ts';
import type { RegistryAccess } from './registries.ts';
import type { State } from './state.ts';

/** Container requests and what is made for them. */
export type Containers = ReturnType<typeof createContainers>;

// What is used is marked so often within the grace of the sweep.
const renewalsInGrace = 4;

export function createContainers(
  { config, log, bringBuilder }: AppDeps,
  state: State,
  registries: RegistryAccess,
  { identities }: People,
  places: BuildPlaces,
) {
  const { content, cachedBlobs, pathOf } = state;
  const { registry, pusher, ownHost, hosted, transport, urlOf, isPlainHttp } = registries;
  const { credentialsOf, serviceCredentialsOf, isOfService } = identities;
  const documents = createDocuments(content, registry, config.sweep.grace / renewalsInGrace);
  const makeImage = createImageMaker(documents);
  const bases = createBaseResolver(registry, documents, access =>
    access.isService ? 'service' : credentialKey(access.credentials),
  );
  const accessToBuilt = (
    image: Pick<Access, 'registry' | 'repository'>,
    grant: SealedGrant | undefined,
  ) => accessInOwnRight(image, ownHost, serviceCredentialsOf(grant));
  const common = { registry, pusher, credentialsOf, ownHost };
  const building = createBuildService({
    ...common,
    credentialsOf: serviceCredentialsOf,
    store: state.builds,
    logDirectory: pathOf('logs/builds'),
    found: findBuilders({
      configured: config.buildkit,
      directory: pathOf('buildkit'),
      folders: [fileURLToPath(new URL('../../.buildkit', import.meta.url))],
      plainHttp: [...registries.settings.keys()].filter(isPlainHttp),
      bring: bringBuilder,
      log,
    }),
    content,
    documents,
    makeImage,
    tokens: hosted.tokens,
    fetchToken: registries.fetchToken,
    isPlainHttp,
    limits: config.builds,
    ownCache: places.cache,
    sifDirectory: pathOf('sif'),
    sif: config.sif,
    removeHosted: hosted.manifests.removeAll,
    log,
  });
  const layers = createLayerIntake({
    content,
    cachedBlobs,
    fetched: state.fetchedLayers,
    openUrl: url => fetchUrl(transport, url),
    limits: config.layers,
  });
  const { builds } = building;
  const build = createBuildIntake({ ...common, builds, places, layers, isOfService });
  const baseOf = createBaseFinder(bases);
  const tokens = createTokenRegistry(state.requests, config.tokenLife);
  const accept = createAccept({
    build,
    accessToBuilt,
    baseOf,
    manifest: documents.manifest,
    makeImage,
    layers,
    tokens,
    credentialsOf,
    servedBase: `${ownHost}/${config.prefix}`,
    mountedLayers: config.layers.mounted,
  });
  const dryRun = createDryRun({
    baseOf,
    layers,
    build,
    registry,
    pusher,
    identities,
    accessToBuilt,
  });
  const inspect = createInspect({ bases, documents, registry, urlOf });
  return { documents, makeImage, accessToBuilt, building, tokens, accept, dryRun, inspect };
}
