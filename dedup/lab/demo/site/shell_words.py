"""The words a page shell says in each language: menus, notices, advertisements, "page not found".

Rule: nothing here belongs to a story. These are the words a deduplicating crawler must see through.
"""

import msgspec

from dedup.lab.demo.site.words import lines, words

__all__ = ["LABELS", "NOT_FOUND", "Labels"]


class Labels(msgspec.Struct, frozen=True):
    """One language's words of the shell."""

    home: str
    by: str
    related: str
    popular: str
    more: str
    previous: str
    following: str
    views: str
    updated: str
    comments: str
    name: str
    send: str
    search: str
    advertisement: str
    account: str
    archive: str
    tools: dict[str, str]  # what a link to a copy or a missing page is called, by the page's kind
    footer: tuple[str, ...]
    notice: str
    advertising: tuple[str, ...]  # advertisements are drawn from these, at every request


LABELS = {
    "en": Labels(
        home="Home",
        by="By",
        related="Related stories",
        popular="Most read",
        more="More about this page",
        previous="Newer",
        following="Older",
        views="views",
        updated="Updated",
        comments="What readers say",
        name="Your name",
        send="Send",
        search="Search",
        advertisement="Advertisement",
        account="You are signed in as a guest",
        archive="All reports",
        tools={
            "session": "Read this with your account",
            "print": "Print this page",
            "stamp": "Reload the latest state",
            "related": "Open beside other reports",
            "syndicated": "Also published by our partner",
            "soft404": "Photo gallery",
            "listing": "Archive",
        },
        footer=lines("""
            Letters to the editor are read every morning and answered when there is time.
            Photographs may be ordered in our shop on Mill Street, open from ten to four.
            All names in these reports are invented; any likeness is chance.
            We set a cookie that remembers how large you like your letters."""),
        notice="This paper lives from its readers. Take a subscription for three coins a month.",
        advertising=words("""
            save now fresh deal bonus free delivery crunchy holiday mattress lottery win click
            exclusive offer insurance shampoo sparkling discount crispy smile miracle upgrade
            sale weekend coupon sofa perfume energy bargain chocolate brand half price tonight
            members cashback sunglasses order today"""),
    ),
    "zh": Labels(
        home="首页",
        by="作者",
        related="相关报道",
        popular="阅读最多",
        more="本页更多",
        previous="较新",
        following="较早",
        views="次浏览",
        updated="更新于",
        comments="读者留言",
        name="您的名字",
        send="发送",
        search="搜索",
        advertisement="广告",
        account="您以访客身份登录",
        archive="全部报道",
        tools={
            "session": "登录后阅读",
            "print": "打印本页",
            "stamp": "刷新页面",
            "related": "与其他报道一起打开",
            "syndicated": "合作媒体刊登",
            "soft404": "图片集",
            "listing": "往期报道",
        },
        footer=lines("""
            读者来信每天早晨阅读，有时间就会回复。
            照片可以在磨坊街的门市部订购，十点到四点营业。
            报道中的名字都是虚构的，如有雷同纯属巧合。
            我们用一个小文件记住您喜欢的字号。"""),
        notice="本报依靠读者支持，每月三枚硬币即可订阅。",
        advertising=words("""
            特价 优惠 新品 抢购 包邮 赠品 会员 折扣 今晚 限时 洗发水 床垫 香水 巧克力 假期 抽奖 点击
            独家 半价 沙发 墨镜 省钱 微笑 清仓 周末 好礼"""),
    ),
    "ar": Labels(
        home="الرئيسية",
        by="بقلم",
        related="أخبار ذات صلة",
        popular="الأكثر قراءة",
        more="المزيد عن هذه الصفحة",
        previous="الأحدث",
        following="الأقدم",
        views="مشاهدة",
        updated="آخر تحديث",
        comments="آراء القراء",
        name="اسمك",
        send="إرسال",
        search="بحث",
        advertisement="إعلان",
        account="دخلت بصفة ضيف",
        archive="كل الأخبار",
        tools={
            "session": "اقرأ بحسابك",
            "print": "اطبع هذه الصفحة",
            "stamp": "حدث الصفحة",
            "related": "افتحها مع أخبار أخرى",
            "syndicated": "نشر أيضا عند شريكنا",
            "soft404": "معرض الصور",
            "listing": "الأرشيف",
        },
        footer=lines("""
            تقرأ رسائل القراء كل صباح ويجاب عنها حين يتسع الوقت.
            يمكن طلب الصور من دكاننا في شارع الطاحونة من العاشرة إلى الرابعة.
            كل الأسماء في هذه الأخبار مخترعة وأي تشابه محض صدفة.
            نحفظ ملفا صغيرا يتذكر حجم الحروف الذي تفضله."""),
        notice="تعيش هذه الجريدة من قرائها فاشترك بثلاث قطع في الشهر.",
        advertising=words("""
            وفر الآن عرض هدية مجانا توصيل عطلة فراش جائزة اضغط حصري خصم عطر شوكولاتة ابتسم تخفيض
            الليلة أعضاء نظارات اطلب اليوم نصف سعر قسيمة طاقة"""),
    ),
}

# What a missing page says, per look and language: a title, then paragraphs. HTTP says 200.
NOT_FOUND = {
    ("herald", "en"): lines("""
        We could not find this page
        The address you followed leads nowhere in our paper. Perhaps the report was moved when the
        archive got its new shelves, perhaps somebody mistyped a letter, or the link was old.
        Try the search field above, go back to the previous screen, or begin once more with the
        front page, where this morning’s reports are waiting. If you believe that something is
        broken, please tell our web desk which address you opened and what you expected there."""),
    ("herald", "zh"): lines("""
        找不到这个页面
        您打开的地址在本报没有对应的内容。也许这篇报道在整理档案时换了位置，
        也许地址里写错了一个字母，也许您使用的链接已经过期。请使用上面的搜索框，返回刚才的屏幕，
        或者从首页重新开始阅读今天早晨的报道。
        如果您认为网站出了故障，请告诉网络编辑部您打开了哪个地址，以及原来希望看到什么内容。"""),
    ("herald", "ar"): lines("""
        لم نعثر على هذه الصفحة
        العنوان الذي فتحته لا يقود إلى أي خبر في جريدتنا. ربما انتقل التقرير حين رتبنا الأرشيف
        من جديد، وربما كتب أحدهم حرفا بدل حرف، أو كان الرابط قديما. جرب خانة البحث في أعلى
        الشاشة، أو ارجع خطوة إلى الوراء، أو ابدأ مرة أخرى من الصفحة الأولى حيث تنتظرك أخبار
        الصباح. وإن ظننت أن عطلا قد وقع فأخبر محرري الموقع بالعنوان الذي طلبته وبما كنت تتوقع
        أن تجده هناك."""),
    ("harbour", "en"): lines("""
        Nothing is moored here
        Our harbour pilots looked behind each pier, yet no document answers to that number. Old
        bulletins are taken ashore after ninety days; agencies sometimes withdraw a dispatch, and
        then its berth stays empty. Steer back by the menu, or write to the night editor with the
        complete reference, and a colleague will search the paper copies in our cellar."""),
    ("valley", "en"): lines("""
        404? Sorry, gone astray
        Hm, that link took a wrong turn somewhere up the valley. Editors rename folders, cows eat
        cables, and every now and then an entire column disappears overnight. None of this is your
        fault. Pick another headline from our list, check whether the spelling looks right, or
        phone us between breakfast and lunch so that Wilma can send you a printed leaflet."""),
}
