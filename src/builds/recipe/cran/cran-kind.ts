import type { BuildkitRecipe, RecipeKind, Tool } from '../recipe-kind.ts';
import { list, text } from '../text/canonical-document.ts';
import { type CranSource, partsOfEntry, readCran } from './read-cran.ts';

/**
 * Increases whenever the recipe of a source changes its result. It is part of the build key, so that images of an older
 * recipe are not used for the new one.
 */
const cranRecipeVersion = '1';

/** R packages: a list, or a lock file of renv. */
export const cranKind: RecipeKind<CranSource> = {
  kind: 'cran',
  isGenerated: true,
  followsLinks: false,
  lockFile: { artifactType: 'application/vnd.sluice.renv.lock.v1+json', title: 'renv.lock' },
  read: readCran,

  keyFields: ({ wanted, repositories, options }) => [
    text('cran', cranRecipeVersion),
    wanted.form === 'packages' ? list('package', wanted.packages) : text('locked', wanted.text),
    list('repository', repositories),
    text('rImage', options.rImage),
    list('basePackage', options.basePackages),
    list('command', options.commands),
  ],

  tools: ({ wanted }) => (wanted.form === 'packages' ? wanted.packages.map(toolOf) : []),
  recipe: cranRecipe,
  partOf: () => undefined,
};

function toolOf(entry: string): Tool {
  const { name, version } = partsOfEntry(entry);
  return { name, version };
}

const inputFolder = '/tmp/sluice';
const lockFolder = '/usr/local/share/sluice';

/**
 * Returns the recipe of R packages. They are installed in the first library of the image. The image keeps the lock file of
 * that library, and neither the installer nor the files of apt-get.
 */
function cranRecipe({ wanted, repositories, options }: CranSource): BuildkitRecipe {
  const { rImage, basePackages, commands } = options;
  const files = new Map([
    ['install.R', installScript],
    ['repositories.txt', linesOf(repositories)],
    wanted.form === 'packages'
      ? ['packages.txt', linesOf(wanted.packages)]
      : ['renv.lock', wanted.text],
  ]);
  const names = basePackages.join(' ');
  const dockerfile = [
    `# Made by Sluice, recipe cran-${cranRecipeVersion}`,
    `FROM ${rImage} AS image`,
    'USER 0',
    ...(basePackages.length > 0
      ? [
          `RUN apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends ${names} && rm -rf /var/lib/apt/lists/*`,
        ]
      : []),
    `RUN --mount=type=bind,target=${inputFolder} Rscript --no-save ${inputFolder}/install.R ${inputFolder} ${lockFolder}`,
    ...commands,
    '',
    'FROM scratch AS lock',
    `COPY --from=image ${lockFolder}/renv.lock /`,
    '',
    'FROM image AS final',
    '',
  ].join('\n');
  return { maker: 'buildkit', dockerfile, files, lockStage: 'lock' };
}

function linesOf(texts: readonly string[]): string {
  return texts.map(line => `${line}\n`).join('');
}

/**
 * Installs packages with renv, which takes binary packages where a repository has them, older versions from its archive, and
 * stops if one package fails. The image's own renv is used if it has one, and otherwise one that is not kept. Dates are fixed,
 * so that the same packages give the same bytes. Source: renv, install() and restore().
 */
const installScript = `arguments <- commandArgs(trailingOnly = TRUE)
input <- arguments[[1]]
output <- arguments[[2]]
library <- .libPaths()[[1]]
options(
  install.opts = "--built-timestamp=1970-01-01",
  renv.consent = TRUE,
  renv.config.cache.enabled = FALSE,
  renv.config.sandbox.enabled = FALSE,
  renv.config.install.transactional = FALSE,
  renv.config.sysreqs.check = nzchar(Sys.which("dpkg")) || nzchar(Sys.which("rpm"))
)

# renv requires a name for each repository.
repositories <- readLines(file.path(input, "repositories.txt"))
if (length(repositories) > 0) {
  names(repositories) <- c("CRAN", sprintf("repository%d", seq_along(repositories)))[seq_along(repositories)]
  options(repos = repositories, renv.config.repos.override = repositories)
}

if (!requireNamespace("renv", quietly = TRUE)) {
  installer <- tempfile("renv")
  dir.create(installer)
  utils::install.packages("renv", lib = installer, quiet = TRUE)
  if (!requireNamespace("renv", lib.loc = installer, quietly = TRUE)) {
    stop("The repositories have no package renv, which installs the packages: name one that does in 'packages.channels', or an image that has it in 'packages.cranOpts.rImage'")
  }
}

lockFile <- file.path(input, "renv.lock")
if (file.exists(lockFile)) {
  renv::restore(library = library, lockfile = lockFile, prompt = FALSE)
} else {
  renv::install(readLines(file.path(input, "packages.txt")), library = library, prompt = FALSE)
}

dir.create(output, recursive = TRUE, showWarnings = FALSE)
renv::snapshot(
  library = library, lockfile = file.path(output, "renv.lock"),
  type = "all", prompt = FALSE, force = TRUE
)
`;
