/** Accepts container requests, and inspects images. */

export {
  type Accept,
  type Accepted,
  createAccept,
  type FrozenResponse,
  type ServedResponse,
} from './accept.ts';
export { createBaseFinder, orasScheme } from './asked-image.ts';
export { createBuildIntake } from './build-intake.ts';
export {
  type ApiVersion,
  type Caller,
  type ContainerRequest,
  countedArchitecture,
  type FixedImage,
  isToBeMade,
  type ManifestName,
  type Submission,
  type SubmittedLayer,
  type WantedScan,
} from './container-request.ts';
export { createDryRun, type DryRun, type Forecast } from './dry-run.ts';
export {
  type ChosenImage,
  chooseImage,
  createInspect,
  createOpenInspected,
  createOpenRequest,
  createOpenServed,
  type Inspect,
  type InspectedImage,
  type OfferedPlatform,
  type OpenInspected,
  type OpenRequest,
} from './inspect/inspect.ts';
export { createOpenLayers } from './inspect/inspected-layers.ts';
export {
  addressText,
  belowAddress,
  directoryOfKey,
  keyAddress,
  keyText,
  type LayerContents,
  type LayerFiles,
  type LayerFilesCaller,
  type LayerFilesDeps,
  type LayerFilesQuery,
  type LayerRow,
  layerFiles,
  layerName,
  nameText,
  type RowDirectory,
} from './inspect/layer-files.ts';
export { createIncludedImages } from './layers/included-images.ts';
export { createLayerSource } from './layers/layer-source.ts';
export {
  createGrantContexts,
  createTakeContext,
  createUploadedContexts,
  type GrantContexts,
} from './layers/uploaded-contexts.ts';
export { createFindRun } from './run-of-name.ts';
export { createFindServed, type FindServed } from './served-name.ts';
export {
  imageFilter,
  type LiveName,
  listLiveNames,
  type NameList,
  ownerOfName,
} from './tokens/live-names.ts';
