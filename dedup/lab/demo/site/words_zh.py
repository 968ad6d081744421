"""Chinese, as the demo's writer knows it: no spaces between words, names put together.

Rule: nouns, verbs and adjectives have two or three characters, so that no pattern dominates them.
"""

from dedup.lab.demo.site.words import Language, Topic, lines, words

__all__ = ["CHINESE"]

_TOPICS = {
    "politics": Topic(
        nouns=words("""
            议会 选民 部长 法案 条约 市长 代表 预算案 宪章 大使 选票 联盟 委员 提案 辩论 政党
            省长 公约 演讲 投票站 总理 纲领 外交官 听证会"""),
        verbs=words("批准 否决 修订 提名 起草 签署 反对 支持 谴责 废除 通过 选出 召集 磋商 表决"),
        adjectives=words("激进 温和 联邦 临时 公开 地方 中立 合法 多边 跨党派 现任 有争议"),
    ),
    "economy": Topic(
        nouns=words("""
            银行 股票 工厂 关税 利润 贷款 仓库 订单 债券 汇率 商店 顾客 投资人 出口 超市 合同
            企业 物价 保险 账户 码头 供应商 零售商 养老金"""),
        verbs=words("投资 收购 出售 贷出 审计 融资 补贴 采购 扩建 清算 租用 抵押 招聘 降价 核算"),
        adjectives=words("昂贵 廉价 亏损 繁荣 紧缩 批发 稳定 季度 破产 可观 低迷 高效"),
    ),
    "science": Topic(
        nouns=words("""
            望远镜 分子 实验室 化石 星系 火箭 论文 细胞 显微镜 粒子 彗星 基因 卫星 轨道 公式
            样本 反应堆 磁场 教授 激光 陨石 探测器 光谱 假说"""),
        verbs=words("观测 测量 发射 合成 证明 模拟 分析 分离 记录 推算 扫描 破译 复制 检验 描绘"),
        adjectives=words("微小 遥远 精确 理论 量子 透明 放射性 古老 罕见 高温 未知 自动"),
    ),
    "health": Topic(
        nouns=words("""
            医院 护士 疫苗 病人 药房 手术 病毒 牙医 症状 救护车 心脏 肺炎 诊所 处方 骨折 血压
            营养 过敏 体温 医师 康复 口罩 抗体 睡眠"""),
        verbs=words("治疗 接种 诊断 隔离 护理 消毒 移植 缓解 预防 检查 包扎 服用 抢救 化验 注射"),
        adjectives=words("慢性 健康 疲倦 急性 传染 无菌 疼痛 虚弱 清醒 口服 先天 温暖"),
    ),
    "nature": Topic(
        nouns=words("""
            河流 森林 草原 台风 湖泊 农田 果园 暴雨 山谷 候鸟 珊瑚 沙漠 水库 渔船 牧场 竹林 冰川
            种子 小麦 熊猫 海岸 湿地 火山 洪水"""),
        verbs=words("种植 灌溉 保护 淹没 砍伐 收割 放牧 捕捞 恢复 污染 治理 迁移 施肥 播撒 挖掘"),
        adjectives=words("干旱 茂密 泥泞 濒危 肥沃 寒冷 荒凉 潮湿 清澈 野生 崎岖 翠绿"),
    ),
    "culture": Topic(
        nouns=words("""
            博物馆 画家 小说 交响乐 剧院 诗人 电影 展览 舞蹈 书法 雕塑 导演 观众 歌剧 乐队 剪纸
            瓷器 戏曲 出版社 图书馆 钢琴 灯会 茶馆 古籍"""),
        verbs=words("演出 绘制 收藏 翻译 排练 朗诵 拍摄 创作 修复 改编 展出 欣赏 雕刻 谱写 装裱"),
        adjectives=words("优美 古典 抽象 滑稽 民间 华丽 朴素 浪漫 著名 手工 悠扬 神秘"),
    ),
}

_CHARACTERS = words("""
    明 华 丽 强 伟 芳 军 秀 英 文 志 国 春 兰 海 山 云 雪 梅 松 林 青 玉 晨 宁 安 康 博""")

CHINESE = Language(
    code="zh",
    direction="ltr",
    space="",
    comma="，",
    stop="。",
    topics=_TOPICS,
    noun_phrases=lines("""
        {adjective}的{noun}
        {place}的{noun}
        这个{noun}
        {number}个{noun}
        那些{noun}
        {person}的{noun}
        每个{noun}
        各种{noun}
        {noun}和{noun}
        {adjective}{noun}
        另一个{adjective}的{noun}
        {organisation}
        附近的{noun}
        本地{noun}
        许多{noun}
        {noun}"""),
    clauses=lines("""
        {np}{verb}了{np}
        {person}在{place}{verb}{np}
        {np}被{np}{verb}
        {person}{said}{np}{verb}{np}
        {np}{adverb}{verb}{np}
        没有人{verb}过{np}
        {organisation}为{np}{verb}{np}
        {np}不能{verb}{np}
        把{np}{verb}给{np}
        {np}将{verb}{np}
        {person}与{person}{adverb}{verb}{np}
        {np}比{np}更{adjective}
        从{place}到{place}，{np}{verb}着{np}
        {np}曾经{verb}{np}
        谁{verb}{np}，谁就{verb}{np}
        {np}应当{adverb}{verb}
        {np}正在{verb}{adjective}的{noun}
        我们{verb}{np}以后{verb}{np}"""),
    openers=lines("""
        {day}
        今年{month}
        {number}年来
        据{person}介绍
        在{place}
        关于{np}
        对{organisation}来说
        {adverb}
        除了{np}
        截至{month}"""),
    connectors=words("因为 但是 而且 所以 虽然 如果 同时 于是 不过 直到"),
    closers=lines("""
        {person}{said}
        直到{day}
        离{place}不远
        不靠{np}
        前后{number}天
        如同{np}
        {adverb}如此"""),
    titles=lines("""
        {place}{verb}{adjective}{noun}
        {person}：{noun}怎样{verb}{noun}
        {number}个{noun}在{place}{verb}{noun}
        {organisation}{adverb}{verb}{noun}
        从{noun}到{noun}，{place}的{adjective}{noun}
        {noun}与{noun}：{person}{said}什么"""),
    slots={
        "adverb": words("""
            悄悄 迅速 公开 终于 很少 反复 仔细 突然 耐心 勉强 逐步 坚决 偶尔 默默 重新"""),
        "said": words("表示 指出 强调 认为 警告 回忆 透露 承认 宣布 解释 补充"),
        "day": words("星期一 星期二 星期三 星期四 星期五 星期六 星期日 昨天 前天"),
        "month": words("一月 二月 三月 四月 五月 六月 七月 八月 九月 十月 年初 年底"),
        "number": words("两 三 四 五 六 七 八 九 十 十二 二十 三十 五十 数百 上千"),
    },
    person_parts=(words("王 李 张 刘 陈 杨 赵 黄 周 吴 徐 孙 胡 郭 何"), _CHARACTERS, _CHARACTERS),
    place_parts=(
        words("东 西 南 北 上 下 长 新 永 平 龙 凤 白 金 石 清"),
        words("河 山 湖 江 桥 泉 原 溪 岭 港 州 林 川 沙 田 塘"),
        words("市 县 镇 村 区"),
    ),
    organisation_parts=(
        _CHARACTERS,
        _CHARACTERS,
        words("""
        集团 学院 协会 基金会 研究所 公司 合作社"""),
    ),
)
