import type { AppRuntime } from './definition-runtime.ts';

/** Returns the script that sets the paths of an app for its programs. Source: Scientific Filesystem, Environment. */
export function appBase(app: string): string {
  const root = `/scif/apps/${app}`;
  const data = `/scif/data/${app}`;
  return `#!/bin/sh
SCIF_APPNAME=${app}
SCIF_APPROOT=${root}
SCIF_APPMETA=${root}/scif
SCIF_DATA=/scif/data
SCIF_APPDATA=${data}
SCIF_APPINPUT=${data}/input
SCIF_APPOUTPUT=${data}/output
export SCIF_APPNAME SCIF_APPROOT SCIF_APPMETA SCIF_DATA SCIF_APPDATA SCIF_APPINPUT SCIF_APPOUTPUT
`;
}

/** Returns the variables about an app that every app, and the container without an app, receives. */
export function appExports(
  app: string,
  { environment, runscript, startscript }: AppRuntime,
): string {
  const suffix = app.replace(/\W/g, '_');
  const root = `/scif/apps/${app}`;
  const variables = {
    APPDATA: `/scif/data/${app}`,
    APPMETA: `${root}/scif`,
    APPROOT: root,
    APPBIN: `${root}/bin`,
    APPLIB: `${root}/lib`,
    ...(environment === undefined ? {} : { APPENV: `${root}/scif/env/90-environment.sh` }),
    APPLABELS: `${root}/scif/labels.json`,
    ...(runscript === undefined ? {} : { APPRUN: `${root}/scif/runscript` }),
    ...(startscript === undefined ? {} : { APPSTART: `${root}/scif/startscript` }),
  };
  const lines = Object.entries(variables).map(
    ([name, value]) => `export SCIF_${name}_${suffix}=${value}\n`,
  );
  return `# The app ${app}.\n${lines.join('')}`;
}

/** Sets the environment of the app that is run (`apptainer run --app`). */
export const appSelection = `#!/bin/sh
# The environment of the app that is run.
app="\${APPTAINER_APPNAME:-\${SINGULARITY_APPNAME:-}}"
if [ -n "$app" ]; then
    if [ ! -d "/scif/apps/$app" ]; then
        echo "The image has no app $app" >&2
        exit 1
    fi
    SCIF_APPS=/scif/apps
    export SCIF_APPS
    PATH="/scif/apps/$app/bin:/scif/apps/$app:$PATH"
    LD_LIBRARY_PATH="/scif/apps/$app/lib\${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
    export PATH LD_LIBRARY_PATH
    for script in 01-base.sh 90-environment.sh; do
        if [ -f "/scif/apps/$app/scif/env/$script" ]; then
            . "/scif/apps/$app/scif/env/$script"
        fi
    done
fi
unset app
`;
