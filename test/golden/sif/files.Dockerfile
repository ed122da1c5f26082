# Translated from a definition file.

FROM alpine AS sluice-stage-1
COPY ["a.txt","/a.txt"]
COPY ["a.txt","/opt/a.txt"]
COPY ["a.txt","/opt/a.txt"]
COPY ["a.txt","/opt/b.txt"]
COPY ["a.txt","/opt/relative"]
COPY ["with blank.txt","/srv/other blank.txt"]
COPY ["folder","/opt/folder"]
COPY ["folder","/srv/folder/folder"]
COPY ["folder/inner","/data"]
COPY [".","/all"]
COPY --parents ["*.txt","/texts/"]
COPY --parents ["folder/./*.txt","/texts/"]
COPY --parents ["folder/?[ab]*","/"]
