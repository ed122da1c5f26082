/** Accepts container requests, and inspects images. */

export {
  type Accept,
  type Accepted,
  createAccept,
  type FrozenResponse,
  type ServedResponse,
} from './accept.ts';
export { createBaseFinder, orasScheme } from './asked-image.ts';
export { createBuildIntake } from './built-image.ts';
export {
  type Caller,
  type ContainerRequest,
  countedArchitecture,
  type FixedImage,
  type ManifestName,
} from './container-request.ts';
export { createDryRun, type DryRun, type Forecast } from './dry-run.ts';
export { type ChosenImage, chooseImage, type OfferedPlatform } from './inspect/choose-image.ts';
export { createInspect, type Inspect } from './inspect/inspect.ts';
export {
  createOpenRequest,
  createOpenServed,
  type InspectedImage,
  type OpenRequest,
} from './inspect/inspect-served.ts';
export { createOpenLayers } from './inspect/inspected-layers.ts';
export {
  type LayerContents,
  type LayerFiles,
  type LayerFilesCaller,
  type LayerFilesDeps,
  type LayerFilesQuery,
  type LayerRow,
  layerFiles,
  type RowDirectory,
} from './inspect/layer-files.ts';
export {
  addressText,
  belowAddress,
  directoryOfKey,
  keyAddress,
  keyText,
  layerName,
  nameText,
} from './inspect/layer-names.ts';
export { createOpenInspected, type OpenInspected } from './inspect/open-inspected.ts';
export { createGrantContexts, type GrantContexts } from './layers/context-grant.ts';
export { createLayerSource } from './layers/layer-source.ts';
export { createTakeContext } from './layers/take-context.ts';
export { createUploadedContexts } from './layers/uploaded-contexts.ts';
export { createFindServed, type FindServed } from './served-name.ts';
export { type ApiVersion, isToBeMade, type Submission, type SubmittedLayer } from './submission.ts';
export {
  imageFilter,
  type LiveName,
  listLiveNames,
  type NameList,
  ownerOfName,
} from './tokens/live-names.ts';
