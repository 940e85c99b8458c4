# One image for everything that an application runs as on a cluster: gateway, driver, executors.
#
#   docker build --build-arg APP=apps/market_spread -t market-spread .
#
# APP is a directory in the build's context; `wallaroo build` makes a context for an application
# that is elsewhere, and with its `--with s3` one with the jars for state on an object store. BASE is a
# Debian or Ubuntu with a Python from 3.11 to 3.14 among its packages; a tag can change, so name a
# digest (NAME@sha256:…) to build from the same base each time. Updates of the distribution are
# installed in any case; with another value of UPDATES, such as the date, also where the engine has
# kept the layers of an earlier build.
#
# Licence texts are kept: in /usr/share/doc/*/copyright, /opt/java/legal, and below /opt/python and
# /opt/wallaroo in *.dist-info and pyspark/licenses.

ARG BASE=docker.io/library/debian:bookworm-slim

# --- Java: only the modules that Spark reaches ---------------------------------------------------
FROM ${BASE} AS java
ARG UPDATES=""
RUN : "${UPDATES}" && apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      openjdk-17-jdk-headless binutils >/dev/null \
 && "$(dirname "$(readlink -f "$(command -v javac)")")/jlink" --output /opt/java \
      --strip-debug --no-header-files --no-man-pages --compress=2 \
      --add-modules java.compiler,java.desktop,java.instrument,java.management,java.naming,java.net.http,java.rmi,java.scripting,java.security.jgss,java.security.sasl,java.sql,java.transaction.xa,java.xml,jdk.crypto.ec,jdk.jfr,jdk.management,jdk.net,jdk.security.auth,jdk.security.jgss,jdk.unsupported,jdk.zipfs \
 && mkdir -p /opt/java/legal && cp -L /usr/share/doc/openjdk-17-jre-headless/copyright /opt/java/legal/ \
 && /opt/java/bin/java -XX:+UseSerialGC -Xshare:dump >/dev/null

# --- Python: the locked packages, Spark among them -----------------------------------------------
FROM ${BASE} AS packages
RUN apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      python3 python3-venv python3-pip ca-certificates >/dev/null
WORKDIR /build
COPY pyproject.toml requirements.lock image/requirements.py ./
# the tools that build packages, then all as wheels: what is downloaded is held against the lock
RUN python3 -m venv /build/tools \
 && python3 requirements.py pyproject.toml requirements.lock build-system >tools.txt \
 && python3 requirements.py pyproject.toml requirements.lock codecs kubernetes kafka >runtime.txt \
 && tools/bin/pip install -q --disable-pip-version-check --no-deps --require-hashes -r tools.txt \
 && tools/bin/pip wheel -q --disable-pip-version-check --no-cache-dir --no-deps --no-build-isolation --require-hashes \
      -r runtime.txt -w wheels \
 && python3 -m venv --without-pip /opt/python \
 && tools/bin/pip -q --disable-pip-version-check --python /opt/python/bin/python install \
      --no-index --no-deps wheels/*.whl

# --- the real-time engine's jar, compiled by the compiler that Spark brings ----------------------
FROM packages AS jar
COPY --from=java /opt/java /opt/java
COPY runtime runtime
RUN JAVA_HOME=/opt/java PYTHONPATH=runtime /opt/python/bin/python -m wallaroo.engine.realtime.jar

# --- the packages without what is not reached ----------------------------------------------------
FROM packages AS python
COPY image/trim.py ./
ARG WITH=""
RUN WITH="${WITH}" python3 trim.py "$(/opt/python/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')" \
 && tools/bin/pip --python /opt/python/bin/python list --format freeze >installed.txt

# --- the runtime, the application, and what it needs besides -------------------------------------
FROM python AS application
COPY README.md LICENSE Dockerfile ./
COPY apps apps
COPY helm helm
COPY image image
COPY runtime runtime
COPY --from=jar /build/runtime/wallaroo/engine/realtime/jvm runtime/wallaroo/engine/realtime/jvm
RUN tools/bin/pip wheel -q --disable-pip-version-check --no-deps --no-build-isolation -w own . \
 && tools/bin/pip -q --disable-pip-version-check --python /opt/python/bin/python install \
      --no-index --no-deps --target /opt/wallaroo own/*.whl \
 && rm -r /opt/wallaroo/wallaroo/shipped
ARG APP
COPY ${APP} /app
ARG APP_ARGS=""
ENV PYTHONPATH=/opt/wallaroo
COPY image/requirements.sh ./
RUN sh requirements.sh /app/requirements.txt installed.txt /opt/wallaroo \
      tools/bin/pip -q --disable-pip-version-check --python /opt/python/bin/python \
 && find /app -name __pycache__ -type d -prune -exec rm -rf {} + \
 && python3 -m compileall -q /app \
 && eval "/opt/wallaroo/bin/wallaroo check /app -- ${APP_ARGS}"

# --- what runs -----------------------------------------------------------------------------------
FROM ${BASE}
ARG UPDATES=""
RUN : "${UPDATES}" && apt-get update -qq \
 && DEBIAN_FRONTEND=noninteractive apt-get upgrade -y -qq >/dev/null \
 && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
      python3 tini libstdc++6 zlib1g >/dev/null \
 && rm -rf /var/lib/apt/lists/* /var/cache/* /var/log/* /usr/share/man/* \
 && find /usr/share/doc -type f ! -name copyright -delete \
 && echo 'wallaroo:x:185:185::/tmp:/usr/sbin/nologin' >>/etc/passwd \
 && echo 'wallaroo:x:185:' >>/etc/group \
 && mkdir -p /var/lib/wallaroo && chown 185:185 /var/lib/wallaroo
COPY --from=java /opt/java /opt/java
COPY --from=python /opt/python /opt/python
COPY --from=application /opt/wallaroo /opt/wallaroo
COPY --from=application /app /app
ENV JAVA_HOME=/opt/java PATH=/opt/wallaroo/bin:/opt/python/bin:/opt/java/bin:/usr/bin:/bin \
    PYTHONPATH=/opt/wallaroo \
    PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1 TZ=UTC LANG=C.UTF-8
USER 185:185
WORKDIR /tmp
ARG BASE
ARG BASE_DIGEST=unknown
ARG APP NAME=${APP} VERSION=0.1.0 REVISION=unknown
LABEL org.opencontainers.image.title="${NAME}" \
      org.opencontainers.image.description="An application on Wallaroo on Spark: gateway, driver, executor" \
      org.opencontainers.image.licenses=Apache-2.0 \
      org.opencontainers.image.version=${VERSION} \
      org.opencontainers.image.revision=${REVISION} \
      org.opencontainers.image.base.name="${BASE}" \
      org.opencontainers.image.base.digest="${BASE_DIGEST}"
HEALTHCHECK --interval=10s --timeout=8s --start-period=120s CMD ["wallaroo", "probe"]
ENTRYPOINT ["/usr/bin/tini", "--", "wallaroo"]
CMD ["--help"]
